package box

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Broker is the content of the file broker.json of a sandbox.
type Broker struct {
	Addr         string `json:"addr"`
	CAFile       string `json:"caFile"`
	ClientPrefix string `json:"clientPrefix"`
	Env          string `json:"env"`
	Passwords    struct {
		Controller string `json:"controller"`
		Base       string `json:"base"`
	} `json:"passwords"`
}

// Broker returns the address and the passwords of the sandbox's broker.
func (b *Box) Broker() (Broker, error) {
	var n Broker
	text, err := os.ReadFile(filepath.Join(b.Dir(), "broker.json"))
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		return n, fmt.Errorf("reading broker.json of sandbox %s: %w", b.Name, err)
	}
	return n, nil
}
