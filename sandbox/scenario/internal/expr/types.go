package expr

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// Names of the CEL types that have fields.
const (
	varsType    = "koupsandbox.vars"
	matrixType  = "koupsandbox.matrix"
	runType     = "koupsandbox.run"
	outputsType = "koupsandbox.outputs"
	baseType    = "koupsandbox.base"
	moduleType  = "koupsandbox.module"
	useType     = "koupsandbox.metaspace"
	streamType  = "koupsandbox.stream"
)

var (
	runFields = map[string]*cel.Type{
		"namespace": cel.StringType, "group": cel.StringType, "seed": cel.IntType, "env": cel.StringType,
		"attempt": cel.IntType,
	}
	baseFields = map[string]*cel.Type{
		"set": cel.StringType, "index": cel.IntType, "identity": cel.StringType, "version": cel.StringType,
		"running":   cel.BoolType,
		"connected": cel.BoolType, "ready": cel.BoolType, "modules": cel.ListType(types.NewObjectType(moduleType)),
		"health": cel.StringType, "readiness": cel.StringType, "metaspace": types.NewObjectType(useType),
	}
	useFields    = map[string]*cel.Type{"used": cel.IntType, "committed": cel.IntType, "max": cel.IntType}
	moduleFields = map[string]*cel.Type{"name": cel.StringType, "version": cel.StringType, "state": cel.StringType}
	streamFields = func() map[string]*cel.Type {
		fields := map[string]*cel.Type{
			"sent": cel.IntType, "open": cel.IntType, "lost": cel.IntType,
			"versions": cel.MapType(cel.StringType, cel.IntType),
			"p50":      cel.DurationType, "p99": cel.DurationType, "max": cel.DurationType, "late": cel.DurationType,
		}
		for _, result := range traffic.Results {
			fields[string(result)] = cel.IntType
		}
		return fields
	}()
)

// Run contains the fields of run in expressions.
type Run struct {
	// Namespace is the namespace of the run. Group is the group of bases of the run.
	Namespace, Group string
	// Seed is the random seed of the run. Expressions see only its lower 63 bits.
	Seed uint64
	// Env is the environment of the sandbox.
	Env string
	// Attempt is the number of the repetition, from 1.
	Attempt int
}

// Value returns r as the value of run in Data.
func (r Run) Value() map[string]any {
	const most = 1<<63 - 1
	return map[string]any{"namespace": r.Namespace, "group": r.Group, "seed": int64(r.Seed & most), "env": r.Env,
		"attempt": int64(r.Attempt)}
}

// Base is the value of bases["SET-N"] in expressions.
type Base struct {
	events.BaseStatus
	// Set is the name of the set, and Index is the number N in the base name SET-N.
	Set   string
	Index int
	// Version is the version that the base reports.
	Version string
}

// Value returns the value of bases["SET-N"] in Data.
func (b Base) Value() map[string]any {
	modules := make([]any, len(b.Modules))
	for i, m := range b.Modules {
		modules[i] = map[string]any{"name": m.Name, "version": m.Version, "state": string(m.State)}
	}
	return map[string]any{"set": b.Set, "index": int64(b.Index), "identity": b.Identity, "version": b.Version,
		"running": b.Running, "connected": b.Connected, "ready": b.Ready, "modules": modules, "health": b.Health,
		"readiness": b.Readiness,
		"metaspace": map[string]any{"used": b.Metaspace.Used, "committed": b.Metaspace.Committed,
			"max": b.Metaspace.Max}}
}

// Stream returns the data of a stream of requests. In the scope Condition, the data are the value of traffic.NAME. In
// the scope Judge, the fields of the data are the names that the expression can use.
func Stream(s traffic.Summary) Data {
	versions := make(map[string]any, len(s.Versions))
	for version, n := range s.Versions {
		versions[version] = int64(n)
	}
	figures := Data{"sent": int64(s.Sent), "open": int64(s.Open), "lost": int64(s.Lost), "versions": versions,
		"p50": s.P50, "p99": s.P99, "max": s.Max, "late": s.Late}
	for _, result := range traffic.Results {
		figures[string(result)] = int64(s.Results[result])
	}
	return figures
}

// provider adds the types of scenario expressions to the CEL types. The values of these types are maps.
type provider struct {
	*types.Registry
	fields map[string]map[string]*cel.Type
}

func newProvider(static Static) (*provider, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("declaring the types of expressions: %w", err)
	}
	p := &provider{Registry: registry, fields: map[string]map[string]*cel.Type{
		varsType: {}, matrixType: {}, outputsType: {}, runType: runFields, baseType: baseFields,
		moduleType: moduleFields, useType: useFields, streamType: streamFields,
	}}
	for name, value := range static.Vars {
		p.fields[varsType][name] = typeOf(value)
	}
	for name, values := range static.Matrix {
		p.fields[matrixType][name] = commonType(values)
	}
	for _, name := range static.Outputs {
		p.fields[outputsType][name] = cel.StringType
	}
	return p, nil
}

// FindStructType implements types.Provider.
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if _, ours := p.fields[name]; ours {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Registry.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if fields, ours := p.fields[name]; ours {
		return slices.Sorted(maps.Keys(fields)), true
	}
	return p.Registry.FindStructFieldNames(name)
}

// FindStructFieldType implements types.Provider.
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if fields, ours := p.fields[name]; ours {
		t, ok := fields[field]
		return &types.FieldType{Type: t}, ok
	}
	return p.Registry.FindStructFieldType(name, field)
}

// NativeToValue implements types.Adapter.
func (p *provider) NativeToValue(value any) ref.Val {
	if data, ok := value.(Data); ok {
		value = map[string]any(data)
	}
	return p.Registry.NativeToValue(value)
}

func typeOf(value any) *cel.Type {
	switch v := value.(type) {
	case string:
		return cel.StringType
	case bool:
		return cel.BoolType
	case int64, int:
		return cel.IntType
	case float64:
		return cel.DoubleType
	case []any:
		return cel.ListType(commonType(v))
	case map[string]any:
		return cel.MapType(cel.StringType, cel.DynType)
	}
	return cel.DynType
}

// commonType returns the common type of all values, or dyn if their types differ.
func commonType(values []any) *cel.Type {
	var found *cel.Type
	for _, v := range values {
		switch t := typeOf(v); {
		case found == nil:
			found = t
		case !found.IsExactType(t):
			return cel.DynType
		}
	}
	if found == nil {
		return cel.DynType
	}
	return found
}

// toJSONValue converts the result of an expression to a JSON value.
func toJSONValue(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Bool, types.Int, types.Double, types.String:
		return v.Value(), nil
	case types.Uint:
		return int64(v), nil //nolint:gosec // lengths and counts fit
	case types.Null:
		return nil, nil
	case types.Duration:
		return v.String(), nil
	case types.Timestamp:
		return v.Format(time.RFC3339Nano), nil
	case traits.Mapper:
		object := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, ok := key.Value().(string)
			if !ok {
				return nil, fmt.Errorf("map key %v is not a string", key.Value())
			}
			value, err := toJSONValue(v.Get(key))
			if err != nil {
				return nil, err
			}
			object[name] = value
		}
		return object, nil
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			value, err := toJSONValue(it.Next())
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	}
	return nil, fmt.Errorf("values of type %s are not supported", v.Type().TypeName())
}
