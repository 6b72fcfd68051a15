package apifault

import (
	"net/http"
	"slices"
	"strings"
)

// request contains the attributes of an API request.
type request struct {
	// verb is the RBAC verb; empty for requests to non-resource URLs, such as /healthz.
	verb                               string
	group, resource, subresource, name string
	// namespace is empty for cluster-scoped resources and for requests in all namespaces.
	namespace string
}

// Kubernetes API verbs by HTTP method. verbsOfOne is for requests for a single object. verbsOfMany is for requests
// for a collection.
var (
	verbsOfOne = map[string]string{http.MethodGet: "get", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete", http.MethodPost: "create"}
	verbsOfMany = map[string]string{http.MethodGet: "list", http.MethodPost: "create",
		http.MethodDelete: "deletecollection"}
	writeVerbs = []string{"create", "update", "patch", "delete", "deletecollection"}
)

// parseRequest parses a request as the API server does. The path is /api/VERSION or /apis/GROUP/VERSION, followed by
// [namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]. prefix is the path of the API server's URL.
func parseRequest(r *http.Request, prefix string) (out request) {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, prefix), "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		out.group, parts = parts[1], parts[3:]
	default:
		return out
	}
	if parts[0] == "namespaces" && len(parts) > 2 && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		out.namespace, parts = parts[1], parts[2:]
	}
	out.resource = parts[0]
	if len(parts) > 1 {
		out.name = parts[1]
	}
	if len(parts) > 2 {
		out.subresource = strings.Join(parts[2:], "/")
	}
	out.verb = verbsOfMany[r.Method]
	if out.name != "" {
		out.verb = verbsOfOne[r.Method]
	}
	if out.verb == "list" && slices.Contains([]string{"1", "true"}, r.URL.Query().Get("watch")) {
		out.verb = "watch"
	}
	return out
}

func (r *request) isWrite() bool { return slices.Contains(writeVerbs, r.verb) }

// resourcePath returns the resource with its subresource in the form that a Role uses, such as pods/status.
func (r *request) resourcePath() string {
	if r.subresource == "" {
		return r.resource
	}
	return r.resource + "/" + r.subresource
}

// String returns a description of the request, such as "update of pods/status stock-7d".
func (r *request) String() string {
	text := r.verb + " of " + r.resourcePath()
	if r.name != "" {
		text += " " + r.name
	}
	return text
}
