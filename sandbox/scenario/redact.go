package scenario

import (
	"reflect"

	"github.com/koupleless/koupsandbox/controller/redact"
)

// Redacted returns a report, or a part of one, with the credentials of all URLs in its texts masked. It does not
// change v, and shares with it the parts without credentials.
func Redacted[T any](v T) T {
	of := reflect.ValueOf(&v).Elem()
	of.Set(redacted(of))
	return v
}

// redacted returns a copy of v without credentials, or v if it has none.
func redacted(v reflect.Value) reflect.Value {
	if !hasCredentials(v) {
		return v
	}
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		out.SetString(redact.Text(v.String()))
	case reflect.Interface:
		out.Set(redacted(v.Elem()))
	case reflect.Pointer:
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(redacted(v.Elem()))
	case reflect.Struct:
		out.Set(v)
		for i := range v.NumField() {
			if v.Field(i).CanInterface() {
				out.Field(i).Set(redacted(v.Field(i)))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			out.Set(reflect.Append(out, redacted(v.Index(i))))
		}
	case reflect.Map:
		out.Set(reflect.MakeMap(v.Type()))
		for _, key := range v.MapKeys() {
			out.SetMapIndex(redacted(key), redacted(v.MapIndex(key)))
		}
	}
	return out
}

// hasCredentials reports whether a text in v has a URL with credentials.
func hasCredentials(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return redact.Text(v.String()) != v.String()
	case reflect.Interface, reflect.Pointer:
		return !v.IsNil() && hasCredentials(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInterface() && hasCredentials(f) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if hasCredentials(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			if hasCredentials(each.Key()) || hasCredentials(each.Value()) {
				return true
			}
		}
	}
	return false
}
