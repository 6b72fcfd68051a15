package scenario

import (
	"reflect"

	"github.com/koupleless/koupsandbox/controller/redact"
)

// Redacted returns a copy of a report, or of a part of a report. In the copy, the credentials in URLs are masked.
func Redacted[T any](v T) T {
	of := reflect.ValueOf(&v).Elem()
	of.Set(redacted(of))
	return v
}

func redacted(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(redact.Text(v.String()))
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(redacted(v.Elem()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(redacted(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanInterface() {
				out.Field(i).Set(redacted(v.Field(i)))
			}
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}
		for i := range v.Len() {
			out.Index(i).Set(redacted(v.Index(i)))
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMap(v.Type()))
		}
		for _, key := range v.MapKeys() {
			out.SetMapIndex(redacted(key), redacted(v.MapIndex(key)))
		}
	}
	return out
}
