package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReorder(t *testing.T) {
	for line, want := range map[string]string{
		"koupsandbox":                                   "koupsandbox",
		"koupsandbox up --bases 3":                      "koupsandbox up --bases 3",
		"koupsandbox logs etcd -f":                      "koupsandbox logs -f etcd",
		"koupsandbox logs etcd --name x":                "koupsandbox logs --name x etcd",
		"koupsandbox logs etcd --name=x broker":         "koupsandbox logs --name=x etcd broker",
		"koupsandbox component kill etcd --name x":      "koupsandbox component kill --name x etcd",
		"koupsandbox --home h base remove a --name x b": "koupsandbox --home h base remove --name x a b",
		"koupsandbox base list --home h -o json":        "koupsandbox --home h base list -o json",
		"koupsandbox up --home=h":                       "koupsandbox --home=h up",
		"koupsandbox base remove a -- --b":              "koupsandbox base remove a -- --b",
		"koupsandbox scenario lint - --live":            "koupsandbox scenario lint --live -",
		"koupsandbox up up --wait 1s":                   "koupsandbox up --wait 1s up",
		"koupsandbox logs etcd --name":                  "koupsandbox logs --name etcd",
		"koupsandbox logs etcd --nome x":                "koupsandbox logs --nome etcd x",
		"koupsandbox logs e " + completionFlag:          "koupsandbox logs e " + completionFlag,
	} {
		got, _ := reorder(newApp(Streams{}, nil), strings.Fields(line))
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}
