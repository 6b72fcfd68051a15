package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

const (
	ownService = `
apiVersion: v1
kind: Service
metadata: {name: billing-svc, namespace: shop}
spec: {selector: {app: billing}, ports: [{port: 80, targetPort: http}]}
`
	ownWorkload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: billing-v3, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: billing}}
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: billing, virtual-kubelet.koupleless.io/component: module}}
    spec:
      containers:
        - name: billing
          image: https://modules.example/billing-3.1.0-ark-biz.jar
          env: [{name: BIZ_VERSION, value: 3.1.0}]
          ports: [{name: http, containerPort: 8088}]
          resources: {requests: {memory: 256Mi}}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  - {key: base.koupleless.io/name, operator: In, values: [shop-base]}
                  - {key: base.koupleless.io/version, operator: In, values: ["2.10"]}
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector: {matchLabels: {app: billing}}
      tolerations:
        - {key: schedule.koupleless.io/virtual-node, operator: Equal, value: "True", effect: NoExecute}
        - {key: schedule.koupleless.io/node-env, operator: Equal, value: prod, effect: NoExecute}
`
)

// required makes the anti-affinity of ownWorkload required.
var required = strings.NewReplacer(
	"preferredDuringSchedulingIgnoredDuringExecution:\n            - weight: 100\n              podAffinityTerm:\n"+
		"                topologyKey", "requiredDuringSchedulingIgnoredDuringExecution:\n            - topologyKey",
	"                labelSelector", "              labelSelector")

// writeOwn writes manifest files below HOME/billing.
func writeOwn(t *testing.T, files map[string]string) (home string) {
	t.Helper()
	home = t.TempDir()
	for name, text := range files {
		file := filepath.Join(home, "billing", name)
		check.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		check.Must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return home
}

// TestInitWithOwnManifests checks that init --manifests writes scenarios that apply the existing manifests with the
// names, bases and environment in these manifests, and that lint and run accept the written files unchanged.
func TestInitWithOwnManifests(t *testing.T) {
	const (
		stands = "    - name: the rollout does not progress, and all replicas are available\n" +
			"      assert:\n        cel: \""
		deployments = stands + "deployments.all(d, d.status.updatedReplicas >= 1 && " +
			"d.status.availableReplicas == d.spec.replicas)\"\n        for: 2s\n"
		serves   = "bases[b].modules.exists(m, m.version != '99.0.0' && m.state == 'ACTIVATED')"
		allServe = "        cel: \"bases.all(b, " + serves + ")\"\n        for: 2s\n"
	)
	bases := `baseName: "shop-base", version: "2.10", metaspace: {max: 576Mi}`
	tests := []struct {
		name    string
		files   map[string]string
		args    []string
		out     string
		release []string // the lines of the scenario release that differ from the example
		broken  string   // a part of the scenario broken-release; empty if there is no such scenario
	}{
		{
			"Deployment", map[string]string{"deploy/app.yaml": ownWorkload, "deploy/service.yaml": ownService,
				"deploy/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"},
			nil,
			"The scenarios use Deployment billing-v3 and these bases: {count: 4, " + bases + ", webPort: 8088}.\n" +
				"They send requests to Service billing-svc.\nThey omit these files, because a sandbox does not " +
				"support their kinds: deploy/kustomization.yaml.\n",
			[]string{
				"    - {count: 4, installTime: 200ms, " + bases + ", webPort: 8088}",
				"    - apply: {file: ../deploy/app.yaml}", "    - apply: {file: ../deploy/service.yaml}",
				"    - wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: billing-v3}}",
				"    - traffic: {start: {name: service, service: billing-svc, module: billing}}",
				"    - traffic: {start: {name: bases, via: bases, module: billing}}",
				"      release: {kind: Deployment, name: billing-v3, version: 99.0.0}",
				"    - wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: billing-v3}}",
			},
			allServe + deployments,
		},
		{
			"required anti-affinity",
			map[string]string{"deploy/app.yaml": required.Replace(ownWorkload) + "---" + ownService},
			nil,
			"and these bases: {count: 5, " + bases + ", webPort: 8088}.\nThey send requests to Service billing-svc.\n" +
				"One base is a spare,",
			[]string{
				"  description: A new version becomes active, and no request is lost.",
				"    - {count: 5, installTime: 200ms, " + bases + ", webPort: 8088}",
				"    - apply: {file: ../deploy/app.yaml}",
				"    - wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: billing-v3}}",
				"    - traffic: {start: {name: service, service: billing-svc, module: billing}}",
				"      release: {kind: Deployment, name: billing-v3, version: 99.0.0}",
				"    - wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: billing-v3}}",
				"    - name: 4 bases serve 99.0.0 and nothing else",
				`      assert: {cel: "bases.filter(b, bases[b].modules.map(m, m.version + ' ' + m.state) == ` +
					`['99.0.0 ACTIVATED']).size() == 4"}`,
			},
			"        cel: \"bases.filter(b, " + serves + ").size() == 4\"\n        for: 2s\n" + deployments,
		},
		{
			"peer, and no Service", map[string]string{"deploy/app.yaml": strings.NewReplacer(
				"shop}", "shop, labels: {virtual-kubelet.koupleless.io/strategy: peer}}").Replace(ownWorkload)},
			nil,
			"The scenarios use Deployment billing-v3 and these bases: {count: 3, " + bases + "}.\nNo Service selects " +
				"its Pods, so they send requests only to the bases.\n",
			[]string{
				"    - {count: 3, installTime: 200ms, " + bases + "}",
				"    - apply: {file: ../deploy/app.yaml}",
				"    - wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: billing-v3}}",
				"    - traffic: {start: {name: bases, via: bases, module: billing}}",
				"      release: {kind: Deployment, name: billing-v3, version: 99.0.0}",
				"    - wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: billing-v3}}",
			},
			allServe + deployments,
		},
		{
			"DaemonSet", map[string]string{"deploy/app.yaml": strings.NewReplacer("kind: Deployment",
				"kind: DaemonSet", "  replicas: 4\n", "", "  strategy:", "  updateStrategy:").Replace(ownWorkload)},
			nil,
			"The scenarios use DaemonSet billing-v3 and these bases: {count: 3,",
			[]string{
				"    - {count: 3, installTime: 200ms, " + bases + "}",
				"    - apply: {file: ../deploy/app.yaml}",
				"    - wait: {rollout: {apiVersion: apps/v1, kind: DaemonSet, name: billing-v3}}",
				"    - traffic: {start: {name: bases, via: bases, module: billing}}",
				"      release: {kind: DaemonSet, name: billing-v3, version: 99.0.0}",
				"    - wait: {rollout: {apiVersion: apps/v1, kind: DaemonSet, name: billing-v3}}",
			},
			allServe + stands + "daemonsets.all(d, d.status.numberAvailable == d.status.desiredNumberScheduled)\"\n" +
				"        for: 2s\n",
		},
		{
			"web module", map[string]string{"deploy/app.yaml": ownWorkload, "deploy/service.yaml": ownService},
			[]string{"--web", "--env", "dev"},
			"The scenarios use Deployment billing-v3 and these bases: {count: 4,",
			[]string{
				"  description: A new version becomes active on every base, and the Service loses no request.",
				"  bases:",
				"    - {count: 4, installTime: 200ms, web: true, " + bases + ", webPort: 8088}",
				"  checks: {activeVersion: ignored} # a base answers 404 while it replaces the version",
				"    - apply: {file: ../deploy/app.yaml}", "    - apply: {file: ../deploy/service.yaml}",
				"    - wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: billing-v3}}",
				"    - traffic: {start: {name: service, service: billing-svc, module: billing}}",
				"      release: {kind: Deployment, name: billing-v3, version: 99.0.0}",
				"    - wait: {rollout: {apiVersion: apps/v1, kind: Deployment, name: billing-v3}}",
			},
			"",
		},
	}
	example, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "examples", "module", "scenarios",
		"release.yaml"))
	check.Must(t, err)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home := writeOwn(t, tt.files)
			args := append([]string{"init", "--manifests", "HOME/billing/deploy", "--manifests",
				"HOME/billing/deploy/app.yaml"}, tt.args...)
			got := run(t, home, append(args, "HOME/billing")...)
			if got.Code != 0 || got.Err != "" || !strings.Contains(got.Out, tt.out) {
				t.Fatalf("init: %+v", got)
			}
			written := tree(t, filepath.Join(home, "billing"))
			var release []string
			for line := range strings.Lines(written["scenarios/release.yaml"]) {
				if !strings.Contains(string(example), line) && !strings.HasPrefix(line, "#") {
					release = append(release, strings.TrimSuffix(line, "\n"))
				}
			}
			if diff := cmp.Diff(tt.release, release); diff != "" {
				t.Errorf("scenario (-want +got):\n%s", diff)
			}
			if broken := written["scenarios/broken-release.yaml"]; (broken == "") != (tt.broken == "") ||
				!strings.Contains(broken, tt.broken) {
				t.Errorf("broken-release.yaml does not contain %q:\n%s", tt.broken, broken)
			}
			env := "prod"
			if len(tt.args) > 0 {
				env = "dev"
			}
			files := "deploy/app.yaml"
			if tt.files["deploy/service.yaml"] != "" {
				files += " deploy/service.yaml"
			}
			for name, contains := range map[string]string{
				"Makefile":                        "lint --env " + env + " " + files + " scenarios\n",
				".github/workflows/scenarios.yml": "lint: --env " + env + " " + files + " scenarios\n",
				"sandbox.yaml":                    "  env: " + env + "\n",
			} {
				if !strings.Contains(written[name], contains) {
					t.Errorf("%s does not contain %q:\n%s", name, contains, written[name])
				}
			}
			for _, name := range []string{"manifests/deployment.yaml", "README.md"} {
				if _, exists := written[name]; exists {
					t.Errorf("%s was written", name)
				}
			}
			plan := run(t, home, "scenario", "run", "--dry-run", "HOME/billing/scenarios")
			if plan.Code != 0 || !strings.Contains(plan.Out, "all are valid") {
				t.Errorf("dry-run: %+v", plan)
			}
		})
	}
}

// TestInitRejectsOwnManifests checks that init writes nothing if it cannot use the manifests.
func TestInitRejectsOwnManifests(t *testing.T) {
	replaced := func(old, text string) string { return strings.Replace(ownWorkload, old, text, 1) }
	for name, tt := range map[string]struct {
		text string
		args []string
		want string
	}{
		"no module":     {replaced(": module}", ": vnode}"), nil, "no Deployment module deploy/app.yaml"},
		"two modules":   {replaced("- name: b", "- name: other\n        - name: b"), nil, "billing other 2"},
		"two workloads": {ownWorkload + "---" + replaced("billing-v3", "v4"), nil, "billing-v3 v4"},
		"invalid name":  {replaced("billing-v3", `"x}, y: {z"`), nil, `"x}, y: {z"`},
		"invalid module name": {replaced("- name: billing\n", "- name: Bill.ing\n"), nil,
			`container "Bill.ing" 63`},
		"no object":      {"# empty", nil, "no Deployment"},
		"not YAML":       {"a: [", nil, "app.yaml:1"},
		"template":       {"metadata: {{ name }}", nil, "no Deployment deploy/app.yaml"},
		"mistyped":       {replaced("replicas: 4", "replicas: four"), nil, "Deployment billing-v3 lint"},
		"unknown port":   {replaced("name: http", "name: web") + "---" + ownService, nil, `"http" billing`},
		"no Service":     {required.Replace(ownWorkload), nil, "Service deploy/app.yaml"},
		"web":            {ownWorkload, []string{"--web"}, "Service deploy/app.yaml"},
		"with a name":    {ownWorkload, []string{"--name", "order"}, "--name --manifests"},
		"missing file":   {ownWorkload, []string{"--manifests", "HOME/nowhere"}, "HOME/nowhere"},
		"standard input": {ownWorkload, []string{"--manifests", "-"}, "--manifests file"},
		"invalid env":    {replaced("value: prod", "value: My_Env"), nil, `"My_Env" 63`},
	} {
		t.Run(name, func(t *testing.T) {
			home := writeOwn(t, map[string]string{"deploy/app.yaml": tt.text})
			args := append([]string{"init", "--manifests", "HOME/billing/deploy/app.yaml"}, tt.args...)
			run(t, home, append(args, "HOME/billing")...).expect(t, 2, seeHelp("init"), tt.want)
			if files := tree(t, home); len(files) != 1 {
				t.Errorf("files were written: %v", files)
			}
		})
	}
	home := writeOwn(t, map[string]string{"deploy/app.yaml": ownWorkload, "x y.yaml": ownWorkload})
	run(t, home, "init", "--manifests", "HOME/billing/deploy/app.yaml", "HOME/other").expect(t, 2, seeHelp("init"),
		"app.yaml below other")
	run(t, home, "init", "--manifests", "HOME/billing/x y.yaml", "HOME/billing").expect(t, 2, seeHelp("init"),
		"x y.yaml letters")
}
