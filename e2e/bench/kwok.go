package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox"
)

const (
	kwokModule  = "sigs.k8s.io/kwok"
	kwokVersion = "v0.8.0"
	kwokLabel   = "type"
	kwokTaint   = "kwok.x-k8s.io/node"
	// kwokWriters create its Nodes at once: kwok waits for Nodes that somebody else creates.
	kwokWriters = 50

	// Targets, as a share of what kwok takes.
	kwokNodesTarget  = 0.7
	kwokPodsTarget   = 0.85
	kwokMemoryTarget = 0.8
	kwokIdleTarget   = 0.6
)

// fleet makes Nodes, and serves the Pods that are on them.
type fleet interface {
	add(ctx context.Context, s *stage, n int) error // makes Nodes, which need not be Ready at once
	selector() (key, value string)                  // a label of its Nodes
	template() corev1.PodTemplateSpec               // a Pod for one of its Nodes
	usage(ctx context.Context, s *stage) (usage, error)
	end() error
}

// againstKwok holds bases and modules against the Nodes and Pods of kwok, which come without a protocol. Each side
// has fresh control planes with the same settings, twice, in the order kwok, ours, ours, kwok.
func againstKwok(ctx context.Context, b *bench) error {
	program, stages, err := installKwok(ctx, b.Home)
	if err != nil {
		return err
	}
	sides := []fleet{&kwok{program: program, stages: stages}, ours{}, ours{}, &kwok{program: program, stages: stages}}
	if b.o.quick {
		sides = sides[:2]
	}
	var of, than spent
	for _, side := range sides {
		one, err := b.spend(ctx, side)
		if err != nil {
			return err
		}
		if _, is := side.(ours); is {
			of.add(one)
		} else {
			than.add(one)
		}
	}
	rounds := float64(len(sides) / 2)
	for _, f := range []struct {
		name   string
		value  func(spent) float64
		unit   string
		target float64 // of ours by kwok's; 0 = none
	}{
		{"Nodes, until all are Ready", func(s spent) float64 { return s.nodes }, "s", kwokNodesTarget},
		{"Pods, create to all Ready", func(s spent) float64 { return s.pods }, "s", kwokPodsTarget},
		{"processor time of all processes a Pod, create to all Ready", func(s spent) float64 { return s.podCPU * 1e3 / float64(b.bases()) }, "ms", 0},
		{"at rest: memory of all processes", func(s spent) float64 { return s.memory }, "MB", kwokMemoryTarget},
		{"at rest: their processor time", func(s spent) float64 { return s.idle }, "s a minute", kwokIdleTarget},
	} {
		b.note("kwok: "+f.name, f.value(than)/rounds, f.unit)
		b.note("ours: "+f.name, f.value(of)/rounds, f.unit)
		if f.target > 0 {
			b.judgeScale("  ours by kwok's", f.value(of)/f.value(than), "times", f.target)
		} else {
			b.note("  ours by kwok's", f.value(of)/f.value(than), "times")
		}
	}
	return nil
}

// spent is what a side took: seconds for Nodes and Pods, seconds of all processors for the Pods, and at rest MB
// and seconds of processor a minute.
type spent struct{ nodes, pods, podCPU, memory, idle float64 }

func (s *spent) add(o spent) {
	s.nodes, s.pods, s.podCPU, s.memory, s.idle = s.nodes+o.nodes, s.pods+o.pods, s.podCPU+o.podCPU, s.memory+o.memory, s.idle+o.idle
}

// spend measures one side, with a sandbox of its own.
func (b *bench) spend(ctx context.Context, side fleet) (one spent, err error) {
	s, err := b.set(ctx, 1) // a sandbox has a base
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, side.end(), b.Down(ctx)) }()
	defer s.pods.stop()
	s.n = b.bases()
	begin := time.Now()
	if err := s.nodes(ctx, side); err != nil {
		return one, err
	}
	one.nodes = time.Since(begin).Seconds()

	before, err := side.usage(ctx, s)
	if err != nil {
		return one, err
	}
	begin = time.Now()
	if err := s.createFrom(ctx, side.template(), module.OnePerPort); err != nil {
		return one, err
	}
	one.pods = time.Since(begin).Seconds()
	after, err := side.usage(ctx, s)
	if err != nil {
		return one, err
	}
	one.podCPU = after.cpu - before.cpu
	s.pods.stop() // so that the watch, too, is at rest

	if err := rest(ctx, restAfter); err != nil {
		return one, err
	}
	if before, err = side.usage(ctx, s); err != nil {
		return one, err
	}
	if err := rest(ctx, b.idleFor()); err != nil {
		return one, err
	}
	if after, err = side.usage(ctx, s); err != nil {
		return one, err
	}
	one.idle, one.memory = (after.cpu-before.cpu)*time.Minute.Seconds()/b.idleFor().Seconds(), (before.megabytes()+after.megabytes())/2
	return one, nil
}

// nodes adds as many Nodes as there are to be Pods, and waits until all are Ready.
func (s *stage) nodes(ctx context.Context, side fleet) error {
	key, value := side.selector()
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = key + "=" + value
	}))
	store := factory.Core().V1().Nodes().Informer().GetStore()
	stop, err := watch(ctx, factory)
	if err != nil {
		return err
	}
	defer stop()
	there := len(store.List())
	if err := side.add(ctx, s, s.n); err != nil {
		return err
	}
	ready := 0
	err = wait.PollUntilContextTimeout(ctx, countEvery, limit, true, func(context.Context) (bool, error) {
		ready = 0
		for _, object := range store.List() {
			node, is := object.(*corev1.Node)
			if is && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}) {
				ready++
			}
		}
		return ready == there+s.n, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %d Nodes are Ready: %w; %d are", there+s.n, err, ready)
	}
	return nil
}

// ours is the simulated bases with the module controller.
type ours struct{}

func (ours) selector() (key, value string) { return module.LabelComponent, "vnode" }

func (ours) template() corev1.PodTemplateSpec {
	return module.Template(app, module.Container(app, oldVersion))
}

func (ours) add(ctx context.Context, s *stage, n int) error {
	up, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer up.Close()
	_, err = up.AddBases(ctx, sandbox.AddRequest{Count: n})
	return err
}

func (ours) usage(ctx context.Context, s *stage) (usage, error) {
	parts, err := s.parts(ctx)
	return together(parts), err
}

func (ours) end() error { return nil }

// kwok is its process, with the stages that it calls fast, and Leases.
type kwok struct {
	program string
	stages  []string
	log     bytes.Buffer
	command *exec.Cmd
	ended   chan error
}

// installKwok builds it, and returns the program and the files of its stages.
func installKwok(ctx context.Context, folder string) (program string, stages []string, err error) {
	output := func(arguments ...string) ([]byte, error) {
		command := exec.CommandContext(ctx, "go", arguments...)
		command.Env = append(command.Environ(), "GOBIN="+folder, "GOFLAGS=")
		out, err := command.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		if err != nil {
			return nil, fmt.Errorf("building kwok %s: %w", kwokVersion, err)
		}
		return out, nil
	}
	if _, err := output("install", kwokModule+"/cmd/kwok@"+kwokVersion); err != nil {
		return "", nil, err
	}
	text, err := output("mod", "download", "-json", kwokModule+"@"+kwokVersion)
	if err != nil {
		return "", nil, err
	}
	var source struct{ Dir string }
	if err := json.Unmarshal(text, &source); err != nil {
		return "", nil, fmt.Errorf("finding the source of kwok: %w", err)
	}
	for _, pattern := range []string{"node/fast/node-*.yaml", "node/heartbeat-with-lease/node-*.yaml", "pod/fast/pod-*.yaml"} {
		found, err := filepath.Glob(filepath.Join(source.Dir, "kustomize", "stage", filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			return "", nil, fmt.Errorf("kwok %s has no stages %s", kwokVersion, pattern)
		}
		stages = append(stages, found...)
	}
	return filepath.Join(folder, "kwok"), stages, nil
}

func (k *kwok) selector() (key, value string) { return kwokLabel, "kwok" }

func (k *kwok) template() corev1.PodTemplateSpec {
	t := module.Template(app, module.Container(app, oldVersion))
	delete(t.Labels, module.LabelComponent)
	t.Spec.NodeSelector = map[string]string{kwokLabel: "kwok"}
	t.Spec.Tolerations = []corev1.Toleration{{Key: kwokTaint, Operator: corev1.TolerationOpExists}}
	return t
}

// add starts kwok, and creates Nodes for it as its documents do.
func (k *kwok) add(ctx context.Context, s *stage, n int) error {
	arguments := []string{"--kubeconfig", filepath.Join(s.Folder(), "kubeconfig"), "--manage-all-nodes=false",
		"--manage-nodes-with-label-selector=" + kwokLabel + "=kwok", "--node-lease-duration-seconds=40"}
	for _, file := range k.stages {
		arguments = append(arguments, "--config", file)
	}
	k.command = exec.CommandContext(ctx, k.program, arguments...)
	k.command.Env = append(os.Environ(), "KWOK_WORKDIR="+filepath.Join(s.Home, "kwok-work"))
	k.command.Stdout, k.command.Stderr = &k.log, &k.log
	if err := k.command.Start(); err != nil {
		return fmt.Errorf("starting kwok: %w", err)
	}
	k.ended = make(chan error, 1)
	go func() { k.ended <- k.command.Wait() }()

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(kwokWriters)
	for i := range n {
		group.Go(func() error {
			_, err := s.client.CoreV1().Nodes().Create(ctx, kwokNode(i), metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating Nodes for kwok: %w", err)
	}
	return nil
}

func kwokNode(i int) *corev1.Node {
	name := fmt.Sprintf("kwok-%d", i)
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{kwokTaint: "fake"},
			Labels:      map[string]string{corev1.LabelHostname: name, kwokLabel: "kwok"},
		},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: kwokTaint, Value: "fake", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Allocatable: room, Capacity: maps.Clone(room)},
	}
}

// usage is that of kwok and of the control plane. The sandbox's own parts are at rest, and do not count.
func (k *kwok) usage(ctx context.Context, s *stage) (usage, error) {
	parts, err := s.parts(ctx)
	if err != nil {
		return usage{}, err
	}
	all := together(parts, daemonPart, controllerPart)
	select {
	case err := <-k.ended:
		k.ended <- err
		return all, fmt.Errorf("kwok has ended: %w\n%s", err, k.log.String()) // it does not write any more
	default:
	}
	p, err := box.ByPID(ctx, "kwok", int32(k.command.Process.Pid)) //nolint:gosec // a pid fits
	if err != nil {
		return all, err
	}
	rss, cpu, err := p.Usage(ctx)
	return usage{rss: all.rss + rss, cpu: all.cpu + cpu}, err
}

func (k *kwok) end() error {
	if k.command == nil {
		return nil
	}
	_ = k.command.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	err := <-k.ended
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // by the signal
	}
	return err
}
