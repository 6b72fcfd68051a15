// Command naive is a module controller that does what first comes to mind: a Node for each base
// that sends a heartbeat, an install for each Pod, and Pods that are Ready as soon as they are
// seen. It never looks at what a base answers. Scenarios must find it out.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// answerTime bounds every wait for the broker.
const answerTime = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "naive:", err)
		os.Exit(1)
	}
}

// naive follows bases and Pods.
type naive struct {
	api    kubernetes.Interface
	broker paho.Client
	env    string

	mu    sync.Mutex
	nodes map[string]base // by the name of the Node
}

type base struct{ identity, ip string }

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	n := &naive{api: api, env: os.Getenv("ENVIRONMENT"), nodes: map[string]base{}}
	n.broker = paho.NewClient(paho.NewClientOptions().AddBroker(os.Getenv("BROKER")).SetClientID(os.Getenv("INSTANCE")).
		SetUsername(os.Getenv("BROKER_USER")).SetPassword(os.Getenv("BROKER_PASSWORD")))
	if err := done(n.broker.Connect()); err != nil {
		return fmt.Errorf("connecting to the broker: %w", err)
	}
	defer n.broker.Disconnect(0)
	heartbeats := func(_ paho.Client, m paho.Message) { n.heard(ctx, m) }
	if err := done(n.broker.Subscribe("koupleless_"+n.env+"/+/base/heart", 1, heartbeats)); err != nil {
		return fmt.Errorf("subscribing to heartbeats: %w", err)
	}
	pods := informers.NewSharedInformerFactory(api, 0).Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { n.pod(ctx, o) }, UpdateFunc: func(_, o any) { n.pod(ctx, o) },
	}); err != nil {
		return err
	}
	go pods.RunWithContext(ctx)
	fmt.Println("naive controller: I am ready")
	return serve(ctx, os.Getenv("HEALTH"))
}

// serve answers that all is well, whatever is.
func serve(ctx context.Context, addr string) error {
	server := &http.Server{Addr: addr, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // nobody is left to hear of it
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func done(t paho.Token) error {
	if !t.WaitTimeout(answerTime) {
		return errors.New("the broker does not answer")
	}
	return t.Error()
}

// heard makes a Node of a base.
func (n *naive) heard(ctx context.Context, m paho.Message) {
	var heartbeat struct {
		Data struct {
			BaseMetadata  struct{ Identity, Name, Version, ClusterName string } `json:"baseMetadata"`
			LocalIP       string                                                `json:"localIP"`
			LocalHostName string                                                `json:"localHostName"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.Payload(), &heartbeat); err != nil {
		fmt.Fprintln(os.Stderr, "heartbeat:", err)
		return
	}
	b, identity := heartbeat.Data, strings.Split(m.Topic(), "/")[1]
	name := "vnode." + identity
	n.mu.Lock()
	_, known := n.nodes[name]
	n.nodes[name] = base{identity, b.LocalIP}
	n.mu.Unlock()
	if known {
		return
	}
	capacity := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourceCPU: resource.MustParse("8")}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{labels.Identity: identity}, Labels: map[string]string{
			labels.Component: labels.Vnode, labels.Env: n.env, labels.BaseName: b.BaseMetadata.Name, labels.BaseVersion: b.BaseMetadata.Version,
			labels.BaseCluster: b.BaseMetadata.ClusterName, labels.BaseHost: b.LocalHostName,
			corev1.LabelHostname: b.LocalHostName, corev1.LabelTopologyZone: name,
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: labels.TaintVirtualNode, Value: "True", Effect: corev1.TaintEffectNoExecute},
			{Key: labels.TaintEnv, Value: n.env, Effect: corev1.TaintEffectNoExecute},
		}},
	}
	_, err := n.api.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			made, err := n.api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			now := metav1.Now()
			made.Status.Capacity, made.Status.Allocatable = capacity, capacity
			made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: b.LocalIP}}
			made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now}}
			_, err = n.api.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
			return err
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
	}
}

// pod sends what a Pod wants to its base, and says at once that it is done.
func (n *naive) pod(ctx context.Context, o any) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	n.mu.Lock()
	b, ours := n.nodes[p.Spec.NodeName]
	n.mu.Unlock()
	switch {
	case !ours:
		return
	case p.DeletionTimestamp != nil:
		n.command(b, "uninstallBiz", p)
		if err := n.api.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, *metav1.NewDeleteOptions(0)); err != nil && !apierrors.IsNotFound(err) {
			fmt.Fprintln(os.Stderr, "pod:", err)
		}
		return
	case p.Status.Phase == corev1.PodRunning:
		return
	}
	n.command(b, "installBiz", p)
	p = p.DeepCopy()
	now := metav1.Now()
	p.Status.Phase, p.Status.PodIP, p.Status.PodIPs, p.Status.StartTime = corev1.PodRunning, b.ip, []corev1.PodIP{{IP: b.ip}}, &now
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	if _, err := n.api.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, "pod:", err)
	}
}

// command sends a command for each module of a Pod, and does not wait for an answer.
func (n *naive) command(b base, command string, p *corev1.Pod) {
	for _, c := range p.Spec.Containers {
		version := ""
		for _, e := range c.Env {
			if e.Name == labels.VersionEnv {
				version = e.Value
			}
		}
		body, err := json.Marshal(map[string]string{"bizName": c.Name, "bizVersion": version, "bizUrl": c.Image})
		if err == nil {
			err = done(n.broker.Publish("koupleless_"+n.env+"/"+b.identity+"/"+command, 1, false, body))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "command:", err)
		}
	}
}
