package v1alpha1

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ownVariables are set by the sandbox for the controller; another value would
// cut the controller off.
var ownVariables = []string{
	"KUBECONFIG", "ENV", "METRICS_ADDR", "HEALTH_ADDR", "ENABLE_MQTT_TUNNEL", "MQTT_BROKER", "MQTT_PORT",
	"MQTT_USERNAME", "MQTT_PASSWORD", "MQTT_CLIENT_PREFIX", "MQTT_CA_PATH",
	"ENABLE_HTTP_TUNNEL", "HTTP_TUNNEL_LISTEN_HOST", "HTTP_TUNNEL_LISTEN_PORT", "HTTP_TUNNEL_PROXY", "CLIENT_ID", "IS_CLUSTER",
	"KUBELET_PROXY_ENABLED", "KUBELET_HOST", "KUBELET_PROXY_PORT", "KUBELET_TLS_CERT", "KUBELET_TLS_KEY", "KUBELET_CLIENT_CA",
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ControllerValues are what the templates of a controller of the user's own may name. The
// comment of Controller.Command describes each.
type ControllerValues struct {
	Kubeconfig     string
	BrokerHost     string
	BrokerPort     int
	BrokerUser     string
	BrokerPassword string
	BrokerCA       string
	HTTPTunnelPort int
	Env            string
	ClientID       string
	ClientPrefix   string
	MetricsAddr    string
	HealthAddr     string
	Name           string
	Index          int
	Replicas       int
	Files          string
	Gateway        string
}

// ControllerProcess is a controller of the user's own with its values filled in: one process.
type ControllerProcess struct {
	// Path is the program, and Args what follows it.
	Path string
	Args []string
	// Env are variables that it has in addition to those of the daemon.
	Env map[string]string
	// Dir is the absolute path of the folder that it runs in.
	Dir string
	// Files are the texts to write into ControllerValues.Files, by the names of the files.
	Files map[string]string
	// ReadyURL answers 200 when it works, and ReadyLog fits a line of its output then. If both are
	// empty it is ready as soon as it runs.
	ReadyURL string
	ReadyLog *regexp.Regexp
}

// Process fills the values into the templates of a controller that has a Command. There is no error
// for a controller that has passed Validate.
func (c *Controller) Process(values ControllerValues) (*ControllerProcess, error) {
	process, errs := c.process(values, field.NewPath("spec", "controller"))
	return process, errs.ToAggregate()
}

func (c *Controller) process(values ControllerValues, path *field.Path) (*ControllerProcess, field.ErrorList) {
	var errs field.ErrorList
	fill := func(at *field.Path, text string) string {
		var b strings.Builder
		t, err := template.New("").Parse(text)
		if err == nil {
			err = t.Execute(&b, values)
		}
		if err != nil {
			errs = append(errs, field.Invalid(at, text, templateProblem(err)))
		}
		return b.String()
	}
	list := func(name string, texts []string) (filled []string) {
		for i, text := range texts {
			if value := fill(path.Child(name).Index(i), text); value != "" || text == "" {
				filled = append(filled, value)
			}
		}
		return filled
	}
	dictionary := func(name string, texts map[string]string) map[string]string {
		filled := make(map[string]string, len(texts))
		for _, key := range sorted(texts) {
			filled[key] = fill(path.Child(name).Key(key), texts[key])
		}
		return filled
	}
	p := &ControllerProcess{Args: append(list("command", c.Command), list("args", c.Args)...), Dir: c.WorkingDir}
	if len(p.Args) > 0 {
		p.Path, p.Args = p.Args[0], p.Args[1:]
	}
	p.Env, p.Files = dictionary("env", c.Env), dictionary("files", c.Files)
	if c.Ready == nil {
		return p, errs
	}
	if p.ReadyURL = fill(path.Child("ready", "http"), c.Ready.HTTP); strings.HasPrefix(p.ReadyURL, "/") {
		p.ReadyURL = "http://" + values.HealthAddr + p.ReadyURL
	}
	if c.Ready.Log != "" {
		var err error
		if p.ReadyLog, err = regexp.Compile(c.Ready.Log); err != nil {
			errs = append(errs, field.Invalid(path.Child("ready", "log"), c.Ready.Log, "is no regular expression: "+err.Error()))
		}
	}
	return p, errs
}

var (
	templatePlace = regexp.MustCompile(`^template: (:[0-9:]+ )?(executing "" )?`)
	noValue       = regexp.MustCompile(`can't evaluate field (\w+) in type v1alpha1\.ControllerValues`)
)

// templateProblem says in a sentence why a template cannot be filled in.
func templateProblem(err error) string {
	if m := noValue.FindStringSubmatch(err.Error()); m != nil {
		var names []string
		for _, f := range reflect.VisibleFields(reflect.TypeFor[ControllerValues]()) {
			names = append(names, "."+f.Name)
		}
		return fmt.Sprintf("there is no value .%s; the values are %s", m[1], strings.Join(names, ", "))
	}
	return "is no template that can be filled in: " + templatePlace.ReplaceAllString(err.Error(), "")
}

// sampleValues have each value set, as with a broker that speaks TLS.
var sampleValues = ControllerValues{
	Kubeconfig: "/kubeconfig", BrokerHost: "127.0.0.1", BrokerPort: 8883, BrokerUser: "user", BrokerPassword: "password", BrokerCA: "/ca.crt",
	HTTPTunnelPort: 7777, Env: "dev", ClientID: "id", ClientPrefix: "koupleless", MetricsAddr: "127.0.0.1:9090", HealthAddr: "127.0.0.1:8081",
	Name: "module-controller", Index: 1, Replicas: 1, Files: "/files", Gateway: "http://127.0.0.1:8080",
}

// Unmet says what a scenario needs of the module controller that a controller of the user's own may not
// have: more replicas than it is configured with, or a variable that its Env does not name, which it
// may not read. The sandbox's own controller has everything.
func (c *Controller) Unmet(needs *ControllerNeeds) error {
	if needs == nil || len(c.Command) == 0 {
		return nil
	}
	var errs []error
	have := 1
	if c.Replicas != nil {
		have = *c.Replicas
	}
	if needs.Replicas != nil && *needs.Replicas > have {
		errs = append(errs, fmt.Errorf("it needs %d replicas of the module controller, but the sandbox runs a command with spec.controller.replicas: %d; "+
			"bring it up with more if that command can share the bases", *needs.Replicas, have))
	}
	for _, name := range sorted(needs.Env) {
		if _, has := c.Env[name]; !has {
			errs = append(errs, fmt.Errorf("it needs the variable %s of the module controller, but the sandbox runs a command whose spec.controller.env does not name it; "+
				"name it there if that command reads it", name))
		}
	}
	return errors.Join(errs...)
}

func validateController(s *Spec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	c := &s.Controller
	if n := *c.Replicas; n < 1 || n > maxControllers {
		errs = append(errs, field.Invalid(path.Child("replicas"), n, fmt.Sprintf("must be between 1 and %d", maxControllers)))
	}
	switch l := c.Location; {
	case l == "": // decided when the sandbox comes up
	case l != LocationHost && l != LocationCluster:
		errs = append(errs, field.NotSupported(path.Child("location"), l, []Location{LocationHost, LocationCluster}))
	case l == LocationCluster && len(c.Command) > 0:
		errs = append(errs, field.Invalid(path.Child("location"), l, "cannot be with spec.controller.command, which runs on this machine: use host"))
	case l == LocationCluster && s.Provider != ProviderKind:
		errs = append(errs, field.Invalid(path.Child("location"), l, "is for the provider kind only: the controller's image can be given to its nodes alone"))
	}
	for _, name := range sorted(c.Env) {
		switch at := path.Child("env").Key(name); {
		case !variableName.MatchString(name):
			errs = append(errs, field.Invalid(at, name, "is not the name of an environment variable"))
		case len(c.Command) == 0 && slices.Contains(ownVariables, name):
			errs = append(errs, field.Forbidden(at, "is set by the sandbox itself: remove it"))
		}
	}
	return append(errs, validateCommand(c, path)...)
}

func validateCommand(c *Controller, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(c.Command) == 0 {
		for _, name := range given(&Controller{Args: c.Args, WorkingDir: c.WorkingDir, Files: c.Files, Ready: c.Ready}) {
			errs = append(errs, field.Forbidden(path.Child(name), "is for a controller of your own: give its program in spec.controller.command, or remove this"))
		}
		return errs
	}
	if strings.TrimSpace(c.Command[0]) == "" {
		errs = append(errs, field.Required(path.Child("command").Index(0), "name the program"))
	}
	for _, name := range sorted(c.Files) {
		if name != filepath.Base(name) || !filepath.IsLocal(name) || name == "." {
			errs = append(errs, field.Invalid(path.Child("files").Key(name), name, "must be the name of a file, without a folder"))
		}
	}
	process, wrong := c.process(sampleValues, path)
	_, unset := c.process(ControllerValues{}, path) // which takes the other way at an if
	for _, e := range unset {
		if !slices.ContainsFunc(wrong, func(known *field.Error) bool { return known.Error() == e.Error() }) {
			wrong = append(wrong, e)
		}
	}
	errs = append(errs, wrong...)
	if c.Ready == nil {
		return errs
	}
	ready := path.Child("ready")
	if (c.Ready.HTTP == "") == (c.Ready.Log == "") {
		return append(errs, field.Forbidden(ready, "takes either http or log"))
	}
	if u, err := url.Parse(process.ReadyURL); c.Ready.HTTP != "" && len(wrong) == 0 && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, field.Invalid(ready.Child("http"), c.Ready.HTTP, "must be an http or https URL, or a path such as /readyz"))
	}
	return errs
}
