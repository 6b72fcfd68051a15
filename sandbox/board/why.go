package board

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/koupleless/koupsandbox/sandbox/board/internal/access"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

// whyTimeout is the timeout of a request to /api/why.
const whyTimeout = 30 * time.Second

// why handles a request for an explanation of an object's current state.
func (b *Board) why(w http.ResponseWriter, r *http.Request) {
	if b.o.API == nil {
		access.Deny(w, http.StatusConflict, "a finished run has no explanations; see the evidence in its report")
		return
	}
	q := r.URL.Query()
	kind := q.Get("kind")
	if kind == "base" {
		kind = string(why.KindNode)
	}
	target, err := why.ParseTarget(kind+"/"+q.Get("name"), q.Get("namespace"))
	if err != nil {
		access.Deny(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), whyTimeout)
	defer cancel()
	snapshot, err := why.Gather(ctx, b.o.API, target)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		access.Deny(w, http.StatusGatewayTimeout, err.Error())
		return
	case err != nil:
		access.Deny(w, http.StatusNotFound, err.Error())
		return
	}
	explained := why.Explain(snapshot, b.now())
	object := explained.Target.Name
	if target.Kind == why.KindNode && snapshot.Node != nil {
		object = snapshot.Node.Name
	}
	answer(w, b.newWhy(explained, object))
}

// newWhy converts an explanation to its JSON form and adds commands that show the same information. object is the
// kubectl name of the explained object.
func (b *Board) newWhy(a why.Answer, object string) Why {
	t := a.Target
	out := Why{
		Kind: string(t.Kind), Namespace: t.Namespace, Name: t.Name, Ready: a.Ready, Reason: string(a.Reason),
		Cause: a.Cause, Advice: a.Advice,
		Evidence: []WhyEvidence{},
	}
	for _, e := range a.Evidence {
		out.Evidence = append(out.Evidence, WhyEvidence{About: e.About, Text: e.Text, At: millis(e.At)})
	}
	in := []string{}
	if t.Namespace != "" {
		in = []string{"-n", t.Namespace}
	}
	out.Commands = []string{
		b.koupsandbox(append([]string{"why", t.String()}, in...)...),
		b.kubectl(append([]string{"describe", string(t.Kind), object}, in...)...),
	}
	if t.Kind == why.KindPod {
		out.Commands = append(out.Commands, b.kubectl(append([]string{"logs", t.Name, "--all-containers"}, in...)...))
	}
	return out
}

// koupsandbox returns a koupsandbox command line for the sandbox or cluster that the board shows.
func (b *Board) koupsandbox(words ...string) string {
	return shellescape.QuoteCommand(slices.Concat([]string{"koupsandbox"}, words, b.o.Flags))
}

// kubectl returns a kubectl command line for the sandbox or cluster that the board shows.
func (b *Board) kubectl(words ...string) string {
	flags := b.o.Flags
	if b.o.Sandbox != nil {
		flags = []string{"--kubeconfig", b.o.Sandbox.Kubeconfig}
	}
	return shellescape.QuoteCommand(slices.Concat([]string{"kubectl"}, words, flags))
}
