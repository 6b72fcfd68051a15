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

// Scope is the place of an expression in a scenario. It determines which names the expression may use.
type Scope int

// The scopes of expressions.
const (
	// Value is the scope of an expression in ${{ … }}.
	Value Scope = iota
	// Condition is the scope of a boolean expression about the current state.
	Condition
	// Judge is the scope of a boolean expression about the results of one stream of requests.
	Judge
	// Until is the scope of a boolean expression about the result of a script.
	Until
)

// ScopeOf returns the scope of the condition in the scenario field with the given path.
func ScopeOf(path string) Scope {
	switch path[strings.LastIndexByte(path, '.')+1:] {
	case "until":
		return Until
	case "judge":
		return Judge
	}
	return Condition
}

// Objects contains the names by which expressions can use lists of Kubernetes objects.
var Objects = []string{"pods", "nodes", "deployments", "replicasets", "daemonsets", "statefulsets", "services",
	"endpointslices", "events"}

// Static contains the names of a scenario that are known before the scenario runs.
type Static struct {
	// Vars maps each variable to a value. The value determines the type of the variable. Default: none.
	Vars map[string]any
	// Matrix maps each dimension of the matrix to its values. Default: none.
	Matrix map[string][]any
	// Outputs lists the names of the script outputs. Default: none.
	Outputs []string
	// Streams lists the names of all streams of requests. If it is nil, stream names are not checked.
	Streams []string
	// Sets lists the names of all sets of bases. If it is nil, base names are not checked.
	Sets []string
}

// Data maps the names that an expression can use (vars, matrix, run and so on) to their values for one evaluation. A
// value may be a func() any, which is called when the expression uses the name.
type Data map[string]any

// Env compiles the expressions of a scenario. It may be used concurrently.
type Env struct {
	static Static
	types  *provider
	envs   map[Scope]*cel.Env
	names  map[Scope][]string

	mu        sync.Mutex
	templates map[string]*Template
}

// New returns an Env. An error indicates a bug in this package.
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
			return nil, fmt.Errorf("declaring the names of expressions: %w", err)
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
