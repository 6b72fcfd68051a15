package events

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Describe returns the kind of the event, its subject (such as the name of a base), and a description.
func (e Event) Describe() (kind, subject, text string) {
	switch {
	case e.Base != nil:
		return "base", e.Base.Base, string(e.Base.Change)
	case e.Health != nil:
		h := e.Health
		return "health", h.Base, fmt.Sprintf("%s, readiness %s, metaspace %s", h.Health, h.Readiness, h.Metaspace)
	case e.Module != nil:
		m := e.Module
		return "module", m.Base, Join(": ", m.String()+" "+transition(m.From, m.State), m.Message)
	case e.Command != nil:
		c := e.Command
		text := Join(" ", c.Name, c.Module.String(), cmp.Or(c.Code, "ok"),
			"after "+c.Elapsed.Round(time.Millisecond).String())
		return "command", c.Base, Join(": ", text, c.Message)
	case e.Pod != nil:
		p := e.Pod
		return "pod", cmp.Or(p.Base, p.Node),
			fmt.Sprintf("%s %s (%s)", strings.Join(p.ModuleNames(), ", "), p.statusText(), p.Name)
	case e.Endpoints != nil:
		x := e.Endpoints
		return "endpoints", x.Service, fmt.Sprintf("%d of %d endpoints ready", x.Ready(), len(x.Endpoints))
	case e.Node != nil:
		return "node", e.Node.Base, Join(": ", transition("", e.Node.State), e.Node.Message)
	case e.Fault != nil:
		f := e.Fault
		return "fault", cmp.Or(f.Base, string(f.Target)),
			Join(": ", f.ID+" "+string(f.Change), string(f.Kind), f.Message)
	case e.Request != nil:
		r := e.Request
		return "request", r.Stream,
			Join(": ", Join(" ", "lost: "+string(r.Result), r.Base, RoutePhrase(r.Route)), r.Message)
	case e.Component != nil:
		return "component", e.Component.Name, Join(": ", string(e.Component.State), e.Component.Message)
	case e.Step != nil:
		return "step", e.Step.Name, Join(": ", string(e.Step.State), e.Step.Message)
	}
	return "synced", "", "the current state is complete; changes follow"
}

// String returns the usage and the limit in MiB. It returns the empty string if the usage is unknown.
func (m Metaspace) String() string {
	const mib = 1 << 20
	switch used := fmt.Sprintf("%.1f", float64(m.Used)/mib); {
	case m == Metaspace{}:
		return ""
	case m.Max < 0:
		return used + " MiB"
	default:
		return fmt.Sprintf("%s/%d MiB", used, m.Max/mib)
	}
}

// String returns the kind, the subject and the description of the event. It omits all lines of the description except
// the first, for example a stack trace.
func (e Event) String() string {
	kind, subject, text := e.Describe()
	text, _, _ = strings.Cut(text, "\n")
	return Join(": ", Join(" ", kind, subject), text)
}

func (p *PodState) statusText() string {
	state := Join(", ", p.Phase, p.Reason)
	switch {
	case p.Gone:
		return "gone"
	case p.Ready:
		state = "Ready"
	}
	if p.Deleting {
		state += ", being deleted"
	}
	return state
}

func transition[S ~string](from, to S) string {
	return Join(" → ", string(from), cmp.Or(string(to), "gone"))
}

// The routes of requests to a base.
const (
	// RouteGateway: the gateway of the sandbox selects an endpoint of the Service.
	RouteGateway = "gateway"
	// RouteAgent: an agent in the cluster selects an endpoint of the Service, in the same way as the gateway.
	RouteAgent = "agent"
	// RouteKubeProxy: kube-proxy selects an endpoint of the Service.
	RouteKubeProxy = "kube-proxy"
	// RouteBases: the stream sends requests to each base in turn. No endpoint is selected.
	RouteBases = "bases"
)

// RoutePhrase returns a phrase that describes the route of requests, such as "through the gateway". For RouteBases,
// it returns the empty string.
func RoutePhrase(route string) string {
	return map[string]string{
		RouteGateway: "through the gateway", RouteAgent: "from within the cluster",
		RouteKubeProxy: "through kube-proxy",
	}[route]
}
