package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/koupleless/koupsandbox/controller/deploy"
)

// Grants contains the kinds of requests that the manifests allow.
type Grants struct {
	kinds      map[string]bool
	namespaced map[string]bool // resources that a Role grants
}

// Granted returns the kinds of requests that the manifests of the controller allow.
func Granted() (*Grants, error) {
	objects, err := deploy.Objects()
	if err != nil {
		return nil, err
	}
	g := &Grants{kinds: map[string]bool{}, namespaced: map[string]bool{}}
	for _, object := range objects {
		if kind := object.GetKind(); kind != "Role" && kind != "ClusterRole" {
			continue
		}
		var role rbacv1.Role // a ClusterRole has the same field for rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return nil, fmt.Errorf("decoding %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		for _, rule := range role.Rules {
			if len(rule.ResourceNames)+len(rule.NonResourceURLs) > 0 {
				return nil, fmt.Errorf("%s %s has an unsupported rule: %v", object.GetKind(),
					object.GetName(), rule)
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					g.add(strings.Trim(group+"/"+resource, "/"), object.GetNamespace(), rule.Verbs)
				}
			}
		}
	}
	return g, nil
}

func (g *Grants) add(resource, namespace string, verbs []string) {
	if namespace != "" {
		g.namespaced[resource] = true
		resource += " in " + namespace
	}
	for _, verb := range verbs {
		g.kinds[resource+" "+verb] = true
	}
}

// Violations returns the kinds of requests in the log that no rule allows, sorted.
func (g *Grants) Violations(l *Log) []string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(l.Requests)) {
		if !g.kinds[kind] {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Unused returns the kinds of requests that a rule allows but the log does not contain, sorted.
func (g *Grants) Unused(l *Log) []string {
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(g.kinds)) {
		if l.Requests[kind] == 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
