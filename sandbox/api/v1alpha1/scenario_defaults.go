package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The names that things have whose author gives none.
const (
	// DefaultSet is the name of a set of bases.
	DefaultSet = "base"
	// DefaultStream is the name of a stream of requests.
	DefaultStream = "traffic"
)

// SetScenarioDefaults fills every setting of a scenario that is not given. The
// environment of bases stays empty: it is that of the sandbox. A step that adds
// bases to a set that there is gets the settings of the set.
func SetScenarioDefaults(s *Scenario) {
	def(&s.APIVersion, APIVersion)
	def(&s.Kind, ScenarioKind)
	spec := &s.Spec
	spec.Timeout = or(spec.Timeout, 2*time.Minute)
	spec.StepTimeout = or(spec.StepTimeout, 30*time.Second)
	for _, check := range spec.Checks.all() {
		def(check.expect, Holds)
	}
	if spec.Controller != nil {
		spec.Controller.Replicas = orInt(spec.Controller.Replicas, 1)
	}
	sets := map[string]*BaseSet{}
	for i := range spec.Bases {
		set := &spec.Bases[i]
		setBaseDefaults(set)
		sets[set.Name] = set
	}
	exclusive := spec.Controller != nil
	s.EachStep(func(_ *field.Path, step *Step) {
		setStepDefaults(step, spec.StepTimeout.Duration, sets)
		exclusive = exclusive || step.Controller != nil || step.Broker != nil || step.APIServer != nil
	})
	nameSteps(spec.Steps)
	nameSteps(spec.Finally)
	if spec.Exclusive == nil {
		spec.Exclusive = &exclusive
	}
}

// checkField is one of the built-in checks.
type checkField struct {
	name   string
	expect *Expectation
}

func (c *Checks) all() []checkField {
	return []checkField{{"activeVersion", &c.ActiveVersion}, {"truth", &c.Truth}, {"order", &c.Order},
		{"installedOnce", &c.InstalledOnce}, {"nothingLeft", &c.NothingLeft}}
}

func setBaseDefaults(set *BaseSet) {
	def(&set.Name, DefaultSet)
	set.Count = orInt(set.Count, 1)
	def(&set.BaseName, set.Name)
	def(&set.Version, "1.0.0")
	def(&set.Tunnel, TunnelMQTT)
	def(&set.Activation, ActivationNewModule)
	for _, d := range []**metav1.Duration{&set.InstallTime, &set.UninstallTime, &set.PullTime, &set.RequestTime, &set.StartupTime} {
		*d = or(*d, 0)
	}
}

func setStepDefaults(step *Step, timeout time.Duration, sets map[string]*BaseSet) {
	step.Repeat = orInt(step.Repeat, 1)
	if step.Sleep != nil {
		timeout += step.Sleep.For.Duration
	}
	if inner, _ := step.Inner(); len(inner) == 0 { // the steps of a group have timeouts of their own
		step.Timeout = or(step.Timeout, timeout)
	}
	if step.Patch != nil {
		def(&step.Patch.Type, patchType(step.Patch.APIVersion))
	}
	if step.Base != nil {
		setBaseActionDefaults(step.Base, sets)
	}
	if step.Controller != nil {
		step.Controller.Replica = orInt(step.Controller.Replica, 1)
	}
	if step.Traffic != nil && step.Traffic.Start != nil {
		setTrafficDefaults(step.Traffic.Start)
	}
	if step.Traffic != nil && step.Traffic.Stop != nil {
		def(&step.Traffic.Stop.Name, DefaultStream)
	}
	if step.Assert != nil {
		step.Assert.For = or(step.Assert.For, 0)
	}
}

func setBaseActionDefaults(b *BaseAction, sets map[string]*BaseSet) {
	if b.Upgrade != nil {
		b.Upgrade.Batch = orInt(b.Upgrade.Batch, 1)
	}
	if b.Add == nil {
		return
	}
	def(&b.Add.Name, DefaultSet)
	set, there := sets[b.Add.Name]
	if !there {
		setBaseDefaults(b.Add)
		sets[b.Add.Name] = b.Add
		return
	}
	b.Add.Count = orInt(b.Add.Count, 1)
	def(&b.Add.BaseName, set.BaseName)
	def(&b.Add.Version, set.Version)
	def(&b.Add.Env, set.Env)
	def(&b.Add.Tunnel, set.Tunnel)
	def(&b.Add.Runtime, set.Runtime)
	def(&b.Add.Activation, set.Activation)
	def(&b.Add.InstallTime, set.InstallTime)
	def(&b.Add.UninstallTime, set.UninstallTime)
	def(&b.Add.PullTime, set.PullTime)
	def(&b.Add.RequestTime, set.RequestTime)
	def(&b.Add.StartupTime, set.StartupTime)
	def(&b.Add.Metaspace, set.Metaspace)
	def(&b.Add.PerModule, set.PerModule)
	def(&b.Add.Faithful, set.Faithful)
	if b.Add.Modules == nil {
		b.Add.Modules = set.Modules
	}
	if b.Add.Faults == nil {
		b.Add.Faults = set.Faults
	}
}

func setTrafficDefaults(t *Traffic) {
	def(&t.Name, DefaultStream)
	def(&t.Via, ViaService)
	if t.Via == ViaBases && len(t.Bases) == 0 {
		t.Bases = BaseNames{"*"}
	}
	t.Rate = orInt(t.Rate, 100)
	t.Timeout = or(t.Timeout, 2*time.Second)
	def(&t.Judge, "lost == 0")
}

// patchType is strategic for the kinds that Kubernetes itself has.
func patchType(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err == nil && strings.Contains(gv.Group, ".") && !strings.HasSuffix(gv.Group, ".k8s.io") {
		return "merge"
	}
	return "strategic"
}

// nameSteps gives a name to the steps that have none, unique within the list.
func nameSteps(steps []Step) {
	var names []string
	for _, step := range steps {
		names = append(names, step.Name)
	}
	for i := range steps {
		step := &steps[i]
		if step.Name == "" {
			name := describe(step)
			for n := 2; slices.Contains(names, name); n++ {
				name = fmt.Sprintf("%s (%d)", describe(step), n)
			}
			step.Name = name
			names = append(names, name)
		}
		nameSteps(step.Steps)
		nameSteps(step.Parallel)
	}
}

func or(d *metav1.Duration, otherwise time.Duration) *metav1.Duration {
	if d == nil {
		return &metav1.Duration{Duration: otherwise}
	}
	return d
}

func orInt(n *int, otherwise int) *int {
	if n == nil {
		return &otherwise
	}
	return n
}
