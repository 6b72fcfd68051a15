package fakebase

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// javaDouble is a float64 that is encoded in JSON as Java's Double.toString formats it.
type javaDouble float64

// MarshalJSON implements json.Marshaler. Whole numbers end with ".0". Very small and very large numbers have an
// exponent with "E".
func (d javaDouble) MarshalJSON() ([]byte, error) {
	f := float64(d)
	if abs := math.Abs(f); abs != 0 && (abs < 1e-3 || abs >= 1e7) {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		n, err := strconv.Atoi(exponent)
		return []byte(mantissa + "E" + strconv.Itoa(n)), err
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return []byte(s), nil
}

// healthData is the data of the response to the health command. Fields that were not requested are nil.
type healthData struct {
	master  *Biz
	cpu     *cpuHealth
	jvm     *jvmHealth
	biz     *Biz
	bizs    []Biz
	plugin  *plugin
	plugins []plugin
}

// cpuHealth and jvmHealth contain the CPU and JVM metrics of protocol 7.
type cpuHealth struct {
	Count  int        `json:"count"`
	Type   string     `json:"type"`
	Total  javaDouble `json:"total used (%)"` // total CPU ticks since the start, not a percentage
	User   javaDouble `json:"user used (%)"`
	System javaDouble `json:"system used (%)"`
	Free   javaDouble `json:"free (%)"`
}

type jvmHealth struct {
	Version          string     `json:"java version"`
	Home             string     `json:"java home"`
	Total            javaDouble `json:"total memory(M)"`
	Max              javaDouble `json:"max memory(M)"`
	Free             javaDouble `json:"free memory(M)"`
	InitHeap         javaDouble `json:"init heap memory(M)"`
	UsedHeap         javaDouble `json:"used heap memory(M)"`
	CommittedHeap    javaDouble `json:"committed heap memory(M)"`
	MaxHeap          javaDouble `json:"max heap memory(M)"`
	InitNonHeap      javaDouble `json:"init non heap memory(M)"`
	UsedNonHeap      javaDouble `json:"used non heap memory(M)"`
	CommittedNonHeap javaDouble `json:"committed non heap memory(M)"`
	MaxNonHeap       javaDouble `json:"max non heap memory(M)"`
	LoadedClasses    int64      `json:"loaded class count"`
	UnloadedClasses  int64      `json:"unload class count"`
	TotalClasses     int64      `json:"total class count"`
	RunTime          javaDouble `json:"run time(s)"`
	UsedMeta         int64      `json:"java used metaspace"`
	CommittedMeta    int64      `json:"java committed metaspace"`
	MaxMeta          int64      `json:"java max metaspace"`
}

type plugin struct {
	ArtifactID      string `json:"artifactId"`
	GroupID         string `json:"groupId"`
	PluginActivator string `json:"pluginActivator"`
	PluginName      string `json:"pluginName"`
	PluginURL       string `json:"pluginUrl"`
	PluginVersion   string `json:"pluginVersion"`
}

// basePlugins lists the plugins of a base that uses the Koupleless starter.
var basePlugins = []plugin{{
	ArtifactID: "koupleless-base-plugin", GroupID: "com.alipay.sofa.koupleless",
	PluginActivator: "com.alipay.sofa.koupleless.plugin.ServerlessRuntimeActivator",
	PluginName:      "koupleless-base-plugin",
	PluginURL:       "file:/app/lib/koupleless-base-plugin-2.1.11.jar!/", PluginVersion: "2.1.11",
}}

// masterVersion is the version of the master biz, which is constant in embed mode.
const masterVersion = "1.0.0"

func (l *incarnation) master() Biz {
	return l.asReported(Biz{
		Spec:  ark.Spec{Name: l.b.opts.Name, Version: masterVersion, WebContextPath: "/", MainClass: "embed main"},
		State: ark.Activated,
	})
}

// healthCommand executes the health command (protocol 7).
func (l *incarnation) healthCommand(req *healthRequest) commandResult {
	if req == nil {
		req = &healthRequest{}
	}
	sub := subject{command: cmdHealth, biz: req.BizName.value, version: req.BizVersion.value}
	return l.query(sub, func() commandResult { return l.health(req, sub) })
}

func (l *incarnation) health(req *healthRequest, sub subject) commandResult {
	if l.b.faults.exceptionAt(stepFind, sub) != nil {
		return rejectedResult(missingBiz(sub), fault.CodeNoMatchedBiz)
	}
	data := healthData{}
	name, version := sub.biz, sub.version
	kind := req.Type.value
	switch kind {
	case "", "system", "biz", "plugin":
	default:
		return exceptionResult(newValidationException(fault.CodeInvalidParameter, "type: "+kind+" can not be found"))
	}
	if kind == "" || kind == "system" {
		if out := l.systemHealth(&data, req.Metrics); out.failed {
			return out
		}
	}
	var biz, plugins commandResult
	if kind == "" || kind == "biz" {
		biz = l.bizHealth(&data, name, version)
	}
	if kind == "" || kind == "plugin" {
		plugins = pluginHealth(&data, name)
	}
	switch { // without a type, both a biz and a plugin with the name must exist
	case biz.failed && (version == "" || !plugins.failed):
		return biz
	case plugins.failed:
		return plugins
	}
	if kind == "" {
		m := l.master()
		data.master = &m
	}
	return ok(data)
}

func (l *incarnation) systemHealth(data *healthData, metrics []jsonString) commandResult {
	names := []string{"cpu", "jvm"}
	if len(metrics) > 0 {
		names = nil
		for _, m := range metrics {
			names = append(names, m.value)
		}
	}
	for _, n := range names {
		switch n {
		case "cpu":
			data.cpu = l.cpuHealth()
		case "jvm":
			data.jvm = l.jvmHealth()
		default:
			return rejectedResult("indicator not registered", fault.CodeInvalidParameter)
		}
	}
	return commandResult{}
}

func (l *incarnation) bizHealth(data *healthData, name, version string) commandResult {
	all := append([]Biz{l.master()}, l.reportedModules()...)
	switch {
	case name == "":
		data.bizs = all
	case version == "":
		data.bizs = slices.DeleteFunc(all, func(b Biz) bool { return b.Name != name })
		if len(data.bizs) == 0 {
			return rejectedResult(missingBiz(subject{biz: name}), fault.CodeNoMatchedBiz)
		}
	default:
		i := slices.IndexFunc(all, func(b Biz) bool { return b.Name == name && b.Version == version })
		if i < 0 {
			return rejectedResult(missingBiz(subject{biz: name, version: version}), fault.CodeNoMatchedBiz)
		}
		data.biz = &all[i]
	}
	return commandResult{}
}

func pluginHealth(data *healthData, name string) commandResult {
	i := slices.IndexFunc(basePlugins, func(p plugin) bool { return p.PluginName == name })
	switch {
	case i >= 0:
		data.plugin = &basePlugins[i]
	case name != "":
		return rejectedResult("can not find plugin", fault.CodeNoMatchedBiz)
	default:
		data.plugins = basePlugins
	}
	return commandResult{}
}

// missingBiz returns the message for a biz that is not installed (protocol 6, row 22).
func missingBiz(s subject) string {
	if s.version == "" && s.biz != "" {
		return "can not find biz: " + s.biz
	}
	return "can not find biz"
}

func (l *incarnation) runTime() time.Duration { return time.Since(l.started) }

func (l *incarnation) cpuHealth() *cpuHealth {
	const cpus, ticksPerSecond = 4, 100
	return &cpuHealth{
		Count: cpus, Type: "Simulated CPU", User: 9.93, System: 6.25, Free: 83.82,
		Total: javaDouble(math.Floor(l.runTime().Seconds() * cpus * ticksPerSecond)),
	}
}

// jvmHealth returns the metrics of a small JVM. The number of loaded classes and the non-heap memory are derived from
// the metaspace usage.
func (l *incarnation) jvmHealth() *jvmHealth {
	const (
		classesOfBase   = 10063
		bytesPerClass   = 5522 // metaspace usage divided by the number of loaded classes
		otherNonHeap    = 9 * mib
		unlimitedInMiB  = -1.0 / mib
		initNonHeapMiB  = 7.3125
		heapTotal, free = 174.5, 37.36
	)
	m := l.metaspace()
	l.b.mu.Lock()
	n := l.container.Len()
	l.b.mu.Unlock()
	loaded := int64(classesOfBase)
	if extra := m.Used - l.b.opts.Metaspace.Used; extra > 0 && n > 0 {
		loaded += extra / bytesPerClass
	}
	return &jvmHealth{
		Version: "17.0.15", Home: "/usr/lib/jvm/java-17-openjdk-amd64",
		Total: heapTotal, Max: 885.5, Free: free,
		InitHeap: 64, UsedHeap: heapTotal - free, CommittedHeap: heapTotal, MaxHeap: 885.5,
		InitNonHeap: initNonHeapMiB, UsedNonHeap: toMiB(m.Used + otherNonHeap),
		CommittedNonHeap: toMiB(m.Committed + otherNonHeap), MaxNonHeap: unlimitedInMiB,
		LoadedClasses: loaded, TotalClasses: loaded,
		RunTime:  javaDouble(float64(l.runTime().Milliseconds()) / 1000),
		UsedMeta: m.Used, CommittedMeta: m.Committed, MaxMeta: m.Max,
	}
}

func toMiB(bytes int64) javaDouble { return javaDouble(float64(bytes) / mib) }

// metaspace returns the current metaspace usage. While a metaspaceFull fault is in effect, it reports an exhausted
// metaspace.
func (l *incarnation) metaspace() MetaspaceStatus {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.metaspaceLocked()
}

// metaspaceLocked is like metaspace, but the caller holds b.mu.
func (l *incarnation) metaspaceLocked() MetaspaceStatus {
	_, full := l.b.faults.inEffectFor(fault.KindMetaspaceFull, subject{})
	return l.metaspaceUse.status(full)
}
