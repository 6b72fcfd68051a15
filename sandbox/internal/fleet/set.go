package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Set describes bases to add to a fleet.
type Set struct {
	// Group is the name of the group of the bases, a DNS label. Default: the bases are the fleet's own bases.
	Group string
	// Name is the name of the set within its group, a DNS label. Default: Spec.Name; if Spec.Name is empty, the first
	// own set, or "base" in a group.
	Name string
	// Spec contains the settings of the bases. Name and Count are ignored. For an own set that exists, Spec must be
	// empty. Default: the settings of the own set, or the defaults of BaseSet in a group.
	Spec v1alpha1.BaseSet
	// Seed is the random seed, which makes the random behaviour of the bases reproducible. Default: a random seed.
	Seed uint64
}

var activations = map[v1alpha1.Activation]fakebase.Activation{
	"":                           fakebase.ActivateNewModule,
	v1alpha1.ActivationNewModule: fakebase.ActivateNewModule,
	v1alpha1.ActivationDefault:   fakebase.ActivateDefault,
	v1alpha1.ActivationMulti:     fakebase.ActivateMulti,
}

// resolveSet applies the defaults to a set, and returns the set and the options of its bases. The error lists all
// invalid settings.
func (f *Fleet) resolveSet(s Set) (Set, fakebase.Options, error) {
	cluster, isNew := s.Group, false
	if s.Group == "" {
		cluster = f.o.ClusterName
		var err error
		s.Spec, isNew, err = f.ownSet(s)
		if err != nil {
			return s, fakebase.Options{}, err
		}
		s.Name = s.Spec.Name
	}
	settings := s.Spec
	s.Name = cmp.Or(s.Name, s.Spec.Name, defaultSet)
	b := &s.Spec
	b.BaseName = cmp.Or(b.BaseName, s.Name)
	b.Env = cmp.Or(b.Env, f.o.Env)
	b.ClusterName = cmp.Or(b.ClusterName, cluster)
	b.WebPort = cmp.Or(b.WebPort, 8080)
	var errs []error
	env := b.Env
	if env != f.o.Env {
		env += f.o.EnvSuffix
	}
	activation, ok := activations[b.Activation]
	if !ok {
		errs = append(errs, fmt.Errorf("unsupported activation %q; supported: newModule, default, multi", b.Activation))
	}
	o := fakebase.Options{
		Name: b.BaseName, Version: b.Version, ClusterName: b.ClusterName, Env: env, Activation: activation,
		Generation: fakebase.Generation(b.Generation), Labels: baseLabels(b), Speed: f.o.Speed, Faithful: b.Faithful,
		WithAllBizReadiness:    b.Health.WithAllBizReadiness,
		SilenceBeforeUninstall: duration(b.Health.SilenceBeforeUninstall),
		Actuator: fakebase.ActuatorOptions{Expose: b.Health.Expose,
			Show: fakebase.HealthDetail(b.Health.Show)},
		Metaspace: fakebase.Metaspace{Leak: float64(b.Metaspace.Leak) / 100, Threshold: b.Metaspace.Threshold},
		StaticBiz: b.Modules, StartupTime: duration(b.StartupTime),
		Web:    &fakebase.WebOptions{RequestDuration: duration(b.RequestTime)},
		Logger: f.o.Logger,
		Catalogue: &fakebase.Catalogue{
			Fetch: fakebase.Fetch(b.Fetch), PullTime: delay(b.PullTime), InstallTime: delay(b.InstallTime),
			UninstallTime: delay(b.UninstallTime), Web: b.Web,
		},
	}
	for _, m := range b.WebModules {
		o.Catalogue.Modules = append(o.Catalogue.Modules,
			fakebase.Module{Name: m.Name, Version: m.Version, WebContextPath: m.ContextPath, Web: true})
	}
	errs = append(errs, o.Catalogue.Validate())
	for _, size := range []struct {
		field, text string
		to          *int64
	}{
		{"metaspace.max", b.Metaspace.Max, &o.Metaspace.Max},
		{"metaspace.used", b.Metaspace.Used, &o.Metaspace.Used},
		{"metaspace.perModule", b.Metaspace.PerModule, &o.Metaspace.PerModule},
	} {
		if size.text == "" {
			continue
		}
		q, err := resource.ParseQuantity(size.text)
		if err != nil || q.Value() <= 0 {
			errs = append(errs, fmt.Errorf("invalid %s %q; use a size such as 256Mi", size.field, size.text))
		}
		*size.to = q.Value()
	}
	for i := range b.Faults {
		if problems := v1alpha1.ValidateFault(v1alpha1.TargetBase, &b.Faults[i]); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("faults[%d]: %w", i, problems.ToAggregate()))
		}
		o.Faults = append(o.Faults, b.Faults[i].OfBase())
	}
	if b.Unreachable {
		o.Faults = append(o.Faults, fault.Fault{ID: "unreachable", Kind: fault.KindWebRefuse})
	}
	named := b.Runtime != ""
	b.Runtime = cmp.Or(b.Runtime, f.o.Runtime, v1alpha1.RuntimeProcess)
	switch b.Tunnel {
	case "", v1alpha1.TunnelMQTT:
		b.Tunnel = v1alpha1.TunnelMQTT
		o.MQTT = &fakebase.MQTTOptions{Username: f.o.Username, Password: f.o.Password, ClientPrefix: f.o.ClientPrefix,
			Dial: f.o.Dial}
	case v1alpha1.TunnelHTTP:
		if f.o.NoHTTPReason != "" {
			errs = append(errs, fmt.Errorf("the HTTP tunnel is not available: %s", f.o.NoHTTPReason))
		}
		o.HTTP = &fakebase.HTTPOptions{Addr: "127.0.0.1:0"}
		if f.o.Heartbeats != nil && b.Env == f.o.Env {
			o.HTTP.HeartbeatEndpoint = heartbeatURL
		}
	default:
		errs = append(errs, fmt.Errorf("unsupported tunnel %q; supported: mqtt, http", b.Tunnel))
	}
	switch runtime := f.o.Runtimes[b.Runtime]; {
	case runtime != nil:
		err := runtime.Adapt(&o, b.WebPort)
		if err != nil && !named {
			b.Runtime, err = v1alpha1.RuntimeProcess, nil
		}
		errs = append(errs, err)
	case b.Runtime == v1alpha1.RuntimeCluster:
		errs = append(errs, errors.New("the runtime cluster is not available in this sandbox; use the runtime "+
			"process, or create the sandbox with --base-runtime cluster and --provider kind or existing"))
	default:
		errs = append(errs, fmt.Errorf("unsupported runtime %q; supported: process, cluster", b.Runtime))
	}
	if err := errors.Join(errs...); err != nil {
		return s, o, err
	}
	if isNew {
		f.mu.Lock()
		f.own = append(f.own, settings)
		f.mu.Unlock()
	}
	return s, o, nil
}

// ownSet returns the settings of one of the fleet's own sets. isNew reports whether s defines a set that the fleet does
// not have yet.
func (f *Fleet) ownSet(s Set) (set v1alpha1.BaseSet, isNew bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := cmp.Or(s.Name, s.Spec.Name, f.own[0].Name, defaultSet)
	for _, own := range f.own {
		if cmp.Or(own.Name, defaultSet) != name {
			continue
		}
		if !reflect.ValueOf(s.Spec).IsZero() {
			return own, false,
				fmt.Errorf("the set %q exists and keeps its settings; use another name for bases with other "+
					"settings", name)
		}
		own.Name = name
		return own, false, nil
	}
	if reflect.ValueOf(s.Spec).IsZero() {
		var names []string
		for _, own := range f.own {
			names = append(names, cmp.Or(own.Name, defaultSet))
		}
		return s.Spec, false, fmt.Errorf("unknown set of bases %q; available: %s", name, strings.Join(names, ", "))
	}
	s.Spec.Name = name
	return s.Spec, true, nil
}

// baseLabels returns the labels that the bases of a set report.
func baseLabels(b *v1alpha1.BaseSet) map[string]string {
	if b.Zone == "" {
		return b.Labels
	}
	all := map[string]string{corev1.LabelTopologyZone: b.Zone}
	maps.Copy(all, b.Labels)
	return all
}

// defaultSet is the set name of the fleet's own bases, and the default set name in a group.
const defaultSet = "base"

func duration(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}

func delay(d *metav1.Duration) fakebase.Delay {
	return fakebase.Delay{Min: fakebase.Duration(duration(d))}
}

// startsOffline reports whether a base with these options stays offline after its start, either because of its
// initial faults or because no controller receives its heartbeats.
func startsOffline(o fakebase.Options) bool {
	http := o.HTTP != nil
	return http && o.HTTP.HeartbeatEndpoint == "" || slices.ContainsFunc(o.Faults, func(f fault.Fault) bool {
		return f.Kind == fault.KindDisconnect || f.Kind == fault.KindCrash || http && f.Kind == fault.KindSilent
	})
}

// validHostName returns an error if name is not a valid host name. Host names become values of Node labels such as
// kubernetes.io/hostname.
func validHostName(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("%w: base host name %q (GROUP-SET-N): %s", ErrInvalid, name, problems[0])
	}
	return nil
}
