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

// ownVariables lists the environment variables that the sandbox sets for the bundled controller.
var ownVariables = []string{
	"KUBECONFIG", "ENV", "TIME_SCALE", "BASE_NETWORKS", "METRICS_ADDR", "HEALTH_ADDR", "ENABLE_MQTT_TUNNEL",
	"MQTT_BROKER", "MQTT_PORT",
	"MQTT_USERNAME", "MQTT_PASSWORD", "MQTT_CLIENT_PREFIX", "MQTT_CA_PATH",
	"ENABLE_HTTP_TUNNEL", "HTTP_TUNNEL_LISTEN_HOST", "HTTP_TUNNEL_LISTEN_PORT", "HTTP_TUNNEL_PROXY",
	"HTTP_TUNNEL_TOKEN", "HTTP_TUNNEL_TLS_CERT", "HTTP_TUNNEL_TLS_KEY", "HTTP_TUNNEL_CLIENT_CA", "CLIENT_ID",
	"IS_CLUSTER",
	"KUBELET_PROXY_ENABLED", "KUBELET_HOST", "KUBELET_PROXY_PORT", "KUBELET_TLS_CERT", "KUBELET_TLS_KEY",
	"KUBELET_CLIENT_CA", "BASE_LOG_FILE",
}

// ControllerValues holds the values that the templates of a custom controller can use. The comment of
// Controller.Command describes them.
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
	Speed          int
}

// ControllerProcess describes how to start one process of a custom controller. Its templates have been evaluated.
type ControllerProcess struct {
	// Path is the path of the binary. Args are its arguments.
	Path string
	Args []string
	// Env lists environment variables to set in addition to the environment variables of the daemon.
	Env map[string]string
	// Dir is the absolute path of the working directory.
	Dir string
	// Files holds the content of the files in the directory ControllerValues.Files, by file name.
	Files map[string]string
	// ReadyURL responds with status 200 when the controller is ready. ReadyLog matches an output line that the
	// controller prints when it is ready. If both are empty, the controller is ready as soon as its process runs.
	ReadyURL string
	ReadyLog *regexp.Regexp
}

// Process evaluates the templates of a controller that has a Command. It returns no error for a controller that
// Validate accepts.
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
	p.ReadyURL = fill(path.Child("ready", "http"), c.Ready.HTTP)
	if strings.HasPrefix(p.ReadyURL, "/") {
		p.ReadyURL = "http://" + values.HealthAddr + p.ReadyURL
	}
	if c.Ready.Log != "" {
		var err error
		p.ReadyLog, err = regexp.Compile(c.Ready.Log)
		if err != nil {
			errs = append(errs,
				field.Invalid(path.Child("ready", "log"), c.Ready.Log, "is not a regular expression: "+err.Error()))
		}
	}
	return p, errs
}

var (
	templatePlace = regexp.MustCompile(`^template: (:[0-9:]+ )?(executing "" )?`)
	noValue       = regexp.MustCompile(`can't evaluate field (\w+) in type v1alpha1\.ControllerValues`)
)

// templateProblem returns the reason why a template cannot be executed.
func templateProblem(err error) string {
	if m := noValue.FindStringSubmatch(err.Error()); m != nil {
		var names []string
		for _, f := range reflect.VisibleFields(reflect.TypeFor[ControllerValues]()) {
			names = append(names, "."+f.Name)
		}
		return fmt.Sprintf("unknown value .%s; supported: %s", m[1], strings.Join(names, ", "))
	}
	return "is not a valid template: " + templatePlace.ReplaceAllString(err.Error(), "")
}

// sampleValues sets all values, as for a sandbox whose broker uses TLS.
var sampleValues = ControllerValues{
	Kubeconfig: "/kubeconfig", BrokerHost: "127.0.0.1", BrokerPort: 8883, BrokerUser: "user",
	BrokerPassword: "password", BrokerCA: "/ca.crt",
	HTTPTunnelPort: 7777, Env: "dev", ClientID: "id", ClientPrefix: "koupleless", MetricsAddr: "127.0.0.1:9090",
	HealthAddr: "127.0.0.1:8081",
	Name:       "module-controller", Index: 1, Replicas: 1, Files: "/files", Gateway: "http://127.0.0.1:8080", Speed: 1,
}

// Unmet returns an error for each requirement of a scenario that a custom controller does not meet: the scenario
// needs more replicas than the controller has, or sets an environment variable that is not in the controller's Env.
// It returns nil for the bundled controller, which meets all requirements.
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
		errs = append(errs, fmt.Errorf(
			"the scenario needs %d replicas of the module controller, but the sandbox runs a command with "+
				"spec.controller.replicas: %d; "+
				"set more replicas if this command can share the bases", *needs.Replicas, have))
	}
	for _, name := range sorted(needs.Env) {
		if _, has := c.Env[name]; !has {
			errs = append(errs,
				fmt.Errorf("the scenario needs the variable %s of the module controller, but the sandbox runs a "+
					"command whose "+
					"spec.controller.env does not have it; "+
					"add the variable if this command reads it", name))
		}
	}
	return errors.Join(errs...)
}

func (v *validator) controllerInExistingCluster(s *Spec, path *field.Path) {
	broker := field.NewPath("spec", "broker")
	if s.Controller.Image == "" {
		v.add(field.Required(path.Child("image"),
			"the nodes of an existing cluster pull the controller image; build it with make image-controller, "+
				"push it to a registry that the nodes can reach, and set its name"))
	}
	switch at, err := ParseBrokerURL(s.Broker.URL); {
	case s.Broker.URL == "" && s.Fleet.Runtime != RuntimeCluster: // reports the same
		v.add(field.Required(broker.Child("url"), noBrokerHere))
	case err == nil && at.TLS && s.Broker.CAFile == "":
		v.add(field.Required(broker.Child("caFile"),
			"controllers in an existing cluster trust only the CA certificate in this file; set it to the "+
				"CA of the broker"))
	}
}

func (v *validator) controller(s *Spec, path *field.Path) {
	c := &s.Controller
	inExisting := c.Location == LocationCluster && s.Provider == ProviderExisting
	switch at := path.Child("location"); {
	case c.Location != LocationCluster:
	case len(c.Command) > 0:
		v.invalid(at, c.Location, "cannot be used with spec.controller.command, which runs on this machine; use host")
	case inExisting:
		v.controllerInExistingCluster(s, path)
	case s.Provider != ProviderKind:
		v.invalid(at, c.Location, "requires the provider kind or existing, whose nodes run Pods; use host")
	}
	if c.Image != "" && !inExisting {
		v.forbid(path.Child("image"),
			"requires the provider existing and spec.controller.location cluster; set them, or remove this field")
	}
	if c.APIView && c.Location == LocationCluster {
		v.invalid(path.Child("apiView"), true,
			"requires a controller on this machine, because the API proxy is local; use --controller host")
	}
	if len(c.Command) > 0 {
		v.command(c, path)
		return
	}
	v.ownVariables(c.Env, path.Child("env"))
	for _, name := range nonZeroFields(&Controller{Args: c.Args, WorkingDir: c.WorkingDir, Files: c.Files,
		Ready: c.Ready}) {
		v.forbid(path.Child(name),
			"requires a custom controller; set its program in spec.controller.command, or remove this field")
	}
}

// ownVariables reports variables in Env that the sandbox itself sets for the bundled controller.
func (v *validator) ownVariables(env map[string]string, path *field.Path) {
	for _, name := range ownVariables {
		if _, is := env[name]; is {
			v.forbid(path.Key(name), "is set by the sandbox; remove it")
		}
	}
}

func (v *validator) command(c *Controller, path *field.Path) {
	v.need(path.Child("command").Index(0), c.Command[0], "set the program")
	for _, name := range sorted(c.Files) {
		if name != filepath.Base(name) || !filepath.IsLocal(name) || name == "." {
			v.invalid(path.Child("files").Key(name), name, "must be a file name without a directory")
		}
	}
	process, errs := c.process(sampleValues, path)
	_, unset := c.process(ControllerValues{}, path) // the other branch of an if in a template
	for _, e := range unset {
		if !slices.ContainsFunc(errs, func(known *field.Error) bool { return known.Error() == e.Error() }) {
			errs = append(errs, e)
		}
	}
	v.errs = append(v.errs, errs...)
	if c.Ready == nil || !v.exactlyOne(c.Ready, path.Child("ready"), "ready needs exactly one condition") {
		return
	}
	if u, err := url.Parse(process.ReadyURL); c.Ready.HTTP != "" && len(errs) == 0 &&
		(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		v.invalid(path.Child("ready", "http"), c.Ready.HTTP, "must be an http or https URL, or a path such as /readyz")
	}
}
