package scenario

import (
	"reflect"

	"github.com/koupleless/koupsandbox/controller/redact"
)

// Redacted returns a report, or a part of one, with the credentials of all URLs in its texts masked. It shares
// with v the parts that have none, and does not change v.
func Redacted[T any](v T) T {
	of := reflect.ValueOf(&v).Elem()
	if clean, changed := redacted(of); changed {
		of.Set(clean)
	}
	return v
}

// redacted returns a copy of a value without credentials, or the value and false if it has none.
func redacted(v reflect.Value) (reflect.Value, bool) {
	out := v
	var changed bool
	// own makes out a copy, before its first part is replaced.
	own := func(copied func() reflect.Value) {
		if !changed {
			out, changed = copied(), true
		}
	}
	switch v.Kind() {
	case reflect.String:
		if text := redact.Text(v.String()); text != v.String() {
			return reflect.ValueOf(text).Convert(v.Type()), true
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			break
		}
		if elem, is := redacted(v.Elem()); is {
			own(func() reflect.Value { return reflect.New(v.Type()).Elem() })
			if v.Kind() == reflect.Pointer {
				out.Set(reflect.New(v.Type().Elem()))
				out.Elem().Set(elem)
			} else {
				out.Set(elem)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			if field, is := redacted(v.Field(i)); is {
				own(func() reflect.Value { return copyOf(v) })
				out.Field(i).Set(field)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if item, is := redacted(v.Index(i)); is {
				own(func() reflect.Value {
					if v.Kind() == reflect.Array {
						return copyOf(v)
					}
					return reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v)
				})
				out.Index(i).Set(item)
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			cleanKey, keyChanged := redacted(key)
			value, valueChanged := redacted(v.MapIndex(key))
			if keyChanged || valueChanged {
				own(func() reflect.Value {
					m := reflect.MakeMapWithSize(v.Type(), v.Len())
					for _, k := range v.MapKeys() {
						m.SetMapIndex(k, v.MapIndex(k))
					}
					return m
				})
				out.SetMapIndex(key, reflect.Value{})
				out.SetMapIndex(cleanKey, value)
			}
		}
	}
	return out, changed
}

func copyOf(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}
