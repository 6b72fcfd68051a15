package redact

import "testing"

func TestURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://repo.example/biz1-1.0.0-ark-biz.jar":                      "https://repo.example/biz1-1.0.0-ark-biz.jar",
		"https://deploy:hunter2@repo.example/a.jar":                        "https://***@repo.example/a.jar",
		"https://token@repo.example:8443/a.jar":                            "https://***@repo.example:8443/a.jar",
		"https://u:p@ss@repo.example/a.jar":                                "https://***@repo.example/a.jar",
		"https://repo.example/a.jar?OSSAccessKeyId=AK1&Signature=S%3D1&n=": "https://repo.example/a.jar?OSSAccessKeyId=***&Signature=***&n=***",
		"https://repo.example/a.jar?secret":                                "https://repo.example/a.jar?***",
		"https://repo.example/a.jar#token=1":                               "https://repo.example/a.jar#token=***",
		"https://repo.example?token=1":                                     "https://repo.example?token=***",
		"https://repo.example/@scope/a.jar":                                "https://repo.example/@scope/a.jar",
		"https://u:with space@repo.example/a.jar":                          "https://***@repo.example/a.jar",
		"https://u:p/ss@repo.example/a.jar?k=1":                            "https://***@repo.example/a.jar?k=***",
		"https://u:p#s/s@repo.example":                                     "https://***@repo.example",
		"https://repo.example:8443/@scope/a.jar":                           "https://repo.example:8443/@scope/a.jar",
		"https://[::1]/@scope/a.jar":                                       "https://[::1]/@scope/a.jar",
		"https://mirror.example/https://u:p@repo.example/a.jar?k=1":        "https://mirror.example/https://***@repo.example/a.jar?k=***",
		"https://repo.example/a.jar,https://u:p@repo.example/b.jar":        "https://repo.example/a.jar,https://***@repo.example/b.jar",
		"https://repo.example/a.jar?n,https://u:p@repo.example/?k=1":       "https://repo.example/a.jar?***",
		"file:///modules/a.jar":                                            "file:///modules/a.jar",
		"registry.example/agent:1.4":                                       "registry.example/agent:1.4",
		"":                                                                 "",
	} {
		got := URL(in)
		if got != want {
			t.Errorf("URL(%q) = %q, want %q", in, got, want)
		}
		if again := URL(got); again != got {
			t.Errorf("URL(%q) = %q: redacting twice changes the result", got, again)
		}
	}
}

func TestText(t *testing.T) {
	const in = `installed "https://u:p@repo.example/a.jar?Signature=s" instead of https://u:p@repo.example/b.jar?x=1, twice`
	const want = `installed "https://***@repo.example/a.jar?Signature=***" instead of https://***@repo.example/b.jar?x=*** twice`
	if got := Text(in); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := Text("a plain text: no URL"); got != "a plain text: no URL" {
		t.Errorf("got %q", got)
	}
}
