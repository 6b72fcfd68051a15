package embedded

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// TestCluster runs several tests that share one control plane.
func TestCluster(t *testing.T) {
	c := newControlPlane(t, t.TempDir(), nil)
	up(t, c)
	for _, tc := range []struct {
		name string
		test func(*testing.T, *ControlPlane)
	}{
		{"cluster description", testDescription},
		{"authentication and authorization", testAuthorization},
		{"taints of Nodes", testNodeTaints},
		{"Service addresses", testServiceAddresses},
		{"scheduling and events", testScheduling},
		{"logs from a kubelet", testKubeletLogs},
		{"access to etcd", testEtcdAccess},
		{"access to profiles", testProfileAccess},
		{"restart of each component", testRestarts},
		{"status with etcd paused", testPausedEtcd},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, c) })
	}
}

func testDescription(t *testing.T, c *ControlPlane) {
	type description struct{ Kubeconfig, Version string }
	d := c.Cluster()
	want := description{filepath.Join(c.o.Dir, "kubeconfig"), "v1.37.2"}
	if diff := cmp.Diff(want, description{d.Kubeconfig, d.Version}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if marked, err := cluster.Marked(t.Context(), c.client(), cluster.Owner{Sandbox: "demo"}); !marked || err != nil {
		t.Errorf("Marked: %v, %v", marked, err)
	}
	var other *cluster.OtherSandboxError
	if err := cluster.Mark(t.Context(), c.client(), cluster.Owner{Sandbox: "another"}); !errors.As(err, &other) ||
		other.Owner.Sandbox != "demo" {
		t.Errorf("Mark for another sandbox returned %v", err)
	}
}

func testAuthorization(t *testing.T, c *ControlPlane) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check.Must(t, c.tokenKubeconfig(path, c.url(apiserver), deploy.User))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig with mode %v (%v)", info.Mode(), err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	check.Must(t, err)
	user := kubernetes.NewForConfigOrDie(config)
	anonymous := kubernetes.NewForConfigOrDie(rest.AnonymousClientConfig(config))
	foreign := kubernetes.NewForConfigOrDie(foreignConfig(t, config))

	list := func(client kubernetes.Interface) error {
		_, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(anonymous); !apierrors.IsForbidden(err) {
		t.Errorf("listing Nodes anonymously: %v", err)
	}
	if err := list(foreign); !apierrors.IsUnauthorized(err) {
		t.Errorf("listing Nodes with a certificate of another CA: %v", err)
	}
	if err := list(user); !apierrors.IsForbidden(err) {
		t.Errorf("listing Nodes without a role: %v", err)
	}
	_, err = c.client().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: deploy.User}},
	}, metav1.CreateOptions{})
	check.Must(t, err)
	if err := within(t, func(context.Context) error { return list(user) }); err != nil {
		t.Errorf("listing Nodes with a role: %v", err)
	}
	check.Must(t, c.client().RbacV1().ClusterRoleBindings().Delete(t.Context(), "test", metav1.DeleteOptions{}))
	check.Must(t, within(t, func(context.Context) error {
		if err := list(user); !apierrors.IsForbidden(err) {
			return fmt.Errorf("listing Nodes after the role was removed: %w", err)
		}
		return nil
	}))
}

// foreignConfig returns a client configuration with an administrator certificate that was issued by another CA.
func foreignConfig(t *testing.T, config *rest.Config) *rest.Config {
	t.Helper()
	p, _, err := makePKI(filepath.Join(t.TempDir(), "pki"), wanted)
	check.Must(t, err)
	foreign := rest.AnonymousClientConfig(config)
	foreign.CertFile, foreign.KeyFile = p.crt("user-admin"), p.key("user-admin")
	return foreign
}

// testNodeTaints checks that a new Node has no taints, and gets one only when the controller manager detects that the
// Node is not ready.
func testNodeTaints(t *testing.T, c *ControlPlane) {
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	nodes := c.client().CoreV1().Nodes()
	created, err := nodes.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "not-ready"},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}},
	}, metav1.CreateOptions{})
	check.Must(t, err)
	if len(created.Spec.Taints) > 0 {
		t.Errorf("new Node with taints %v", created.Spec.Taints)
	}
	check.Must(t, within(t, func(ctx context.Context) error {
		n, err := nodes.Get(ctx, "not-ready", metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(n.Spec.Taints,
			func(have corev1.Taint) bool { return have.MatchTaint(&notReady) }) {
			err = fmt.Errorf("not-ready Node with taints %v", n.Spec.Taints)
		}
		return err
	}))
	check.Must(t, nodes.Delete(t.Context(), "not-ready", metav1.DeleteOptions{}))
}

func testServiceAddresses(t *testing.T, c *ControlPlane) {
	_, network, err := net.ParseCIDR("10.96.0.0/16")
	check.Must(t, err)
	api, err := c.client().CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	check.Must(t, err)
	if api.Spec.ClusterIP != "10.96.0.1" {
		t.Errorf("Service kubernetes has the address %s", api.Spec.ClusterIP)
	}
	created, err := c.client().CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}},
			Selector: map[string]string{"app": "biz"}},
	}, metav1.CreateOptions{})
	check.Must(t, err)
	if !network.Contains(net.ParseIP(created.Spec.ClusterIP)) {
		t.Errorf("Service with address %s, outside %s", created.Spec.ClusterIP, network)
	}
}

func testScheduling(t *testing.T, c *ControlPlane) {
	for i := range 3 {
		check.Must(t, makeNode(t.Context(), c.client(), i))
	}
	_, err := c.client().AppsV1().Deployments("default").Create(t.Context(), deployment(6), metav1.CreateOptions{})
	check.Must(t, err)
	check.Must(t, within(t, func(ctx context.Context) error {
		pods, err := c.client().CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return counted(6, err, len(pods.Items),
			func(i int) bool { return strings.HasPrefix(pods.Items[i].Spec.NodeName, "base-") })
	}))
	check.Must(t, within(t, func(ctx context.Context) error {
		events, err := c.client().CoreV1().Events("default").List(ctx,
			metav1.ListOptions{FieldSelector: "reason=Scheduled"})
		return counted(6, err, len(events.Items), func(int) bool { return true })
	}))
	node, err := c.client().CoreV1().Nodes().Get(t.Context(), "base-0000", metav1.GetOptions{})
	check.Must(t, err)
	if len(node.Annotations) != 0 || node.Spec.PodCIDR != "" {
		t.Errorf("unnecessary writes to a Node: annotations %v, PodCIDR %q", node.Annotations,
			node.Spec.PodCIDR)
	}
}

func testKubeletLogs(t *testing.T, c *ControlPlane) {
	certPEM, keyPEM, _, err := c.IssueServingCert("localhost", "127.0.0.1")
	check.Must(t, err)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	check.Must(t, err)
	callers := x509.NewCertPool()
	ca, err := os.ReadFile(c.kubeletClientCA())
	check.Must(t, err)
	callers.AppendCertsFromPEM(ca)
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName+" requested "+r.URL.Path)
	}))
	kubelet.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: callers}
	kubelet.StartTLS()
	defer kubelet.Close()

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "base-logs"}}
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "198.18.0.1"}, {Type: corev1.NodeInternalDNS, Address: "localhost"},
	}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(kubelet.Listener.Addr().(*net.TCPAddr).Port)
	_, err = c.client().CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	check.Must(t, err)
	_, err = c.client().CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "with-logs"},
		Spec:       corev1.PodSpec{NodeName: "base-logs", Containers: []corev1.Container{{Name: "biz", Image: "biz"}}},
	}, metav1.CreateOptions{})
	check.Must(t, err)
	logs, err := c.client().CoreV1().Pods("default").GetLogs("with-logs", &corev1.PodLogOptions{}).DoRaw(t.Context())
	want := "kube-apiserver-kubelet-client requested /containerLogs/default/with-logs/biz"
	if err != nil || string(logs) != want {
		t.Errorf("logs %q (%v), want %q", logs, err, want)
	}
}

// testEtcdAccess checks that the administrator certificate for the Kubernetes API does not give access to etcd.
func testEtcdAccess(t *testing.T, c *ControlPlane) {
	for name, user := range map[string]string{"the API server": "apiserver-etcd-client",
		"the administrator": "user-admin"} {
		client, err := newHealthClient(c.pki, etcdCA, user)
		check.Must(t, err)
		response, err := client.Get(c.url(etcd) + "/version")
		if err == nil {
			check.Must(t, response.Body.Close())
		}
		if allowed := err == nil; allowed != (name == "the API server") {
			t.Errorf("access of %s: %v (%v)", name, allowed, err)
		}
	}
}

func testProfileAccess(t *testing.T, c *ControlPlane) {
	anonymous := c.health.Transport.(*http.Transport).Clone()
	anonymous.TLSClientConfig.Certificates = nil
	for _, name := range []string{apiserver, controllerManager, scheduler} {
		for who, tc := range map[string]struct {
			client *http.Client
			want   int
		}{
			"the administrator": {c.health, http.StatusOK},
			"anonymous":         {&http.Client{Transport: anonymous}, http.StatusForbidden},
		} {
			response, err := tc.client.Get(c.url(name) + "/debug/pprof/goroutine")
			check.Must(t, err)
			check.Must(t, response.Body.Close())
			if response.StatusCode != tc.want {
				t.Errorf("profile of %s for %s: %s, want %d", name, who, response.Status, tc.want)
			}
		}
	}
}

func testRestarts(t *testing.T, c *ControlPlane) {
	for _, name := range componentNames {
		check.Must(t, c.o.Supervisor.Kill(name))
		for _, st := range c.o.Supervisor.Status(t.Context(), nil) {
			if st.Name == name && (st.State != supervise.Exited || st.Ready || st.Exit != "signal: killed") {
				t.Errorf("status of %s after it was killed: %+v", name, st)
			}
		}
		check.Must(t, c.o.Supervisor.Restart(t.Context(), name))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, other := range componentNames {
			check.Must(t, c.o.Supervisor.WaitReady(ctx, other))
		}
	}
}

func testPausedEtcd(t *testing.T, c *ControlPlane) {
	check.Must(t, c.o.Supervisor.Pause(etcd))
	reasons := map[string]string{}
	check.Must(t, within(t, func(ctx context.Context) error {
		for _, st := range c.o.Supervisor.Status(ctx, nil) {
			reasons[st.Name] = st.Reason
		}
		if !strings.Contains(reasons[apiserver], "etcd") && !strings.Contains(reasons[apiserver], "deadline") {
			return fmt.Errorf("reason of kube-apiserver with etcd paused: %q", reasons[apiserver])
		}
		return nil
	}))
	if reasons[etcd] != "paused" {
		t.Errorf("reason of etcd: %q, want paused", reasons[etcd])
	}
	check.Must(t, c.o.Supervisor.Resume(etcd))
	check.Must(t, c.o.Supervisor.WaitReady(t.Context(), apiserver))
}

// within calls check until it succeeds. It fails the test if check still fails at the time limit.
func within(t *testing.T, check func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// makeNode creates a Ready Node and its Lease as the module controller would create them.
func makeNode(ctx context.Context, client kubernetes.Interface, i int) error {
	name := fmt.Sprintf("base-%04d", i)
	room := corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("100"), corev1.ResourceCPU: resource.MustParse("8"),
		corev1.ResourceMemory: resource.MustParse("16Gi"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
		},
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	now, seconds := metav1.NowMicro(), int32(40)
	_, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &now, LeaseDurationSeconds: &seconds},
	}, metav1.CreateOptions{})
	return err
}

func deployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "biz"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "biz", Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "biz", Image: "biz"}}},
			},
		},
	}
}

// counted returns err if it is not nil. Otherwise, it returns an error unless good is true for exactly want of the
// indexes from 0 to got-1.
func counted(want int, err error, got int, good func(int) bool) error {
	if err != nil {
		return err
	}
	n := 0
	for i := range got {
		if good(i) {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d of %d", n, want)
	}
	return nil
}
