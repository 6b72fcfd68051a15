package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/cluster/nodes"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

const (
	// noteFile in the state directory says that the cluster of the sandbox's name is, or was being,
	// made by it.
	noteFile = "kind.json"
	// answerTime is how long a cluster that is there may take to say whose it is.
	answerTime = 5 * time.Second
	// wakeTime is how long one may take after its containers were started.
	wakeTime = 45 * time.Second
)

// ownership is the content of noteFile.
type ownership struct {
	Cluster string `json:"cluster"`
	Engine  string `json:"engine"`
	// Complete once the cluster has the ownership marker: until then it is nothing but a half.
	Complete bool `json:"complete"`
}

func (p *Provider) noteOwned(complete bool) error {
	text, err := json.Marshal(ownership{Cluster: p.name, Engine: p.engine.Command, Complete: complete})
	if err == nil {
		err = os.WriteFile(filepath.Join(p.o.Dir, noteFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting whose kind cluster %s is: %w", p.name, err)
	}
	return nil
}

// readNote returns what the state directory says of the cluster; nil means nothing.
func (p *Provider) readNote() (*ownership, error) {
	text, err := os.ReadFile(filepath.Join(p.o.Dir, noteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var o ownership
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("reading whose kind cluster %s is: %w", p.name, err)
	}
	if o.Cluster != p.name {
		return nil, nil
	}
	return &o, nil
}

// checkOwner finds out whose the cluster of the name is, if there is one. The sandbox's own is
// adopted. A half that an earlier up left behind is removed. Any other is refused and not touched.
func (p *Provider) checkOwner(ctx context.Context) error {
	list, err := p.kind.ListNodes(p.name)
	if err != nil {
		return fmt.Errorf("looking for kind cluster %s: %w", p.name, plain(err))
	}
	if len(list) == 0 {
		return nil
	}
	note, err := p.readNote()
	if err != nil {
		return err
	}
	if note != nil && !note.Complete {
		p.o.Note(fmt.Sprintf("an earlier up left half of kind cluster %s behind; it is removed and created again",
			p.name))
		return p.delete(ctx)
	}
	limit := answerTime
	if note != nil {
		// Its containers may have ended with the engine.
		if _, err := p.engine.Run(ctx, append([]string{"start"}, names(list)...)...); err != nil {
			return fmt.Errorf("starting the nodes of kind cluster %s again: %w", p.name, err)
		}
		limit = wakeTime
	}
	marked, err := p.marked(ctx, limit)
	var other *cluster.OtherSandboxError
	switch {
	case errors.As(err, &other):
		return fmt.Errorf("kind cluster %s: %w", p.name, err)
	case err == nil && marked:
		p.owned, p.adopt = true, true
		p.o.Note(fmt.Sprintf("kind cluster %s is there and is used as it is", p.name))
		return p.connect()
	case note != nil:
		return fmt.Errorf("kind cluster %s of this sandbox no longer answers (%s): remove it with koupsandbox down, then bring it up again", p.name, p.noMark(err))
	default:
		return fmt.Errorf("there is a kind cluster %s that no sandbox has made (%s), and it was not touched: choose another --name, or delete it with: kind delete cluster --name %s",
			p.name, p.noMark(err), p.name)
	}
}

// noMark says in a clause what the cluster did not say.
func (p *Provider) noMark(err error) string {
	if err == nil {
		return "it bears no mark"
	}
	p.o.Logger.Info("a kind cluster does not say whose it is", "cluster", p.name, "err", err)
	return "it does not answer"
}

// marked asks the cluster whether it bears the sandbox's mark, for as long as it does not answer
// and at most for limit. It writes nothing.
func (p *Provider) marked(ctx context.Context, limit time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	var marked bool
	var other *cluster.OtherSandboxError
	err := poll(ctx, func(ctx context.Context) (err error) {
		marked, err = p.readMark(ctx)
		if errors.As(err, &other) {
			return nil
		}
		return err
	})
	if other != nil {
		return false, other
	}
	return marked, err
}

// readMark asks once. It writes no file, since the cluster may be somebody else's.
func (p *Provider) readMark(ctx context.Context) (bool, error) {
	text, err := p.kind.KubeConfig(p.name, false)
	if err != nil {
		return false, plain(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	if err != nil {
		return false, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return false, err
	}
	return cluster.Marked(ctx, client, p.o.Owner)
}

// Forget deletes the cluster of a sandbox whose daemon is gone, if it is the sandbox's: by its
// directory, or by the mark. Without an engine there is nothing to delete.
func Forget(ctx context.Context, o Options) error {
	p, err := New(o)
	if err != nil {
		return err
	}
	if err := p.findEngine(ctx); errors.Is(err, engine.ErrNoEngine) {
		return nil
	} else if err != nil {
		return err
	}
	list, err := p.kind.ListNodes(p.name)
	if err != nil || len(list) == 0 {
		return err
	}
	note, err := p.readNote()
	if err != nil {
		return err
	}
	if note == nil {
		marked, err := p.marked(ctx, answerTime)
		if !marked {
			p.o.Logger.Info("a kind cluster of the sandbox's name is left alone", "because", p.noMark(err))
			return nil
		}
	}
	p.owned = true
	return p.Down(ctx)
}

func names(list []nodes.Node) []string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = n.String()
	}
	return out
}
