package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
)

// Scope says where an expression stands, and so which names it knows.
type Scope int

// The kinds of expressions.
const (
	// Value is the inside of ${{ … }}.
	Value Scope = iota
	// Condition is a boolean expression over everything that is known at run time.
	Condition
	// Judge is a boolean expression over the figures of one stream.
	Judge
	// Until is a boolean expression over what a script left behind.
	Until
)

// ScopeOf is the kind of the condition in a field of a scenario, by the field's path.
func ScopeOf(path string) Scope {
	switch path[strings.LastIndexByte(path, '.')+1:] {
	case "until":
		return Until
	case "judge":
		return Judge
	}
	return Condition
}

// Objects are the names of lists of Kubernetes objects, those that Uses may name.
var Objects = []string{"pods", "nodes", "deployments", "replicasets", "daemonsets", "statefulsets", "services",
	"endpointslices", "events"}

// Static is what is known of a scenario before it runs.
type Static struct {
	// Vars with their values, which give their types. Default: none.
	Vars map[string]any
	// Matrix with the values of each dimension. Default: none.
	Matrix map[string][]any
	// Outputs are the names that steps give to what their scripts print. Default: none.
	Outputs []string
	// Streams are the names of all streams of requests. Nil: not known, any will do.
	Streams []string
	// Sets are the names of all sets of bases. Nil: not known, any will do.
	Sets []string
}

// Data has the values of names for one evaluation: vars, matrix, run and so on. A value may be a
// func() any, which is called when the name is needed.
type Data map[string]any

// Env compiles expressions. It may be used concurrently.
type Env struct {
	static Static
	types  *provider
	envs   map[Scope]*cel.Env
	names  map[Scope][]string

	mu        sync.Mutex
	templates map[string]*Template
}

// New makes an Env. An error is a mistake of the program.
func New(static Static) (*Env, error) {
	p, err := newProvider(static)
	if err != nil {
		return nil, err
	}
	e := &Env{static: static, types: p, envs: map[Scope]*cel.Env{}, names: map[Scope][]string{},
		templates: map[string]*Template{}}
	for kind, names := range e.declarations() {
		options := []cel.EnvOption{
			cel.CustomTypeProvider(p), cel.CustomTypeAdapter(p),
			cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), cel.EnableMacroCallTracking(),
			ext.Strings(), ext.Lists(), ext.Sets(), ext.Math(), ext.TwoVarComprehensions(),
		}
		for name, t := range names {
			options = append(options, cel.Variable(name, t))
		}
		e.envs[kind], err = cel.NewEnv(options...)
		if err != nil {
			return nil, fmt.Errorf("making the names of expressions: %w", err)
		}
		e.names[kind] = slices.Sorted(maps.Keys(names))
	}
	return e, nil
}

func (e *Env) declarations() map[Scope]map[string]*cel.Type {
	common := map[string]*cel.Type{
		"vars": types.NewObjectType(varsType), "matrix": types.NewObjectType(matrixType),
		"run": types.NewObjectType(runType), "outputs": types.NewObjectType(outputsType),
	}
	with := func(more map[string]*cel.Type) map[string]*cel.Type {
		all := maps.Clone(common)
		maps.Copy(all, more)
		return all
	}
	objects := map[string]*cel.Type{
		"bases":   cel.MapType(cel.StringType, types.NewObjectType(baseType)),
		"traffic": cel.MapType(cel.StringType, types.NewObjectType(streamType)),
	}
	for _, name := range Objects {
		objects[name] = cel.ListType(cel.DynType)
	}
	return map[Scope]map[string]*cel.Type{
		Value: common, Condition: with(objects), Judge: with(streamFields),
		Until: with(map[string]*cel.Type{"stdout": cel.StringType, "stderr": cel.StringType, "exitCode": cel.IntType}),
	}
}
