package daemon

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/mqttview"
)

// SetMQTTRule disturbs the way of controllers or bases to the broker.
func (d *Daemon) SetMQTTRule(r control.MQTTRuleRequest) (string, error) {
	running, err := d.isUp()
	if err != nil {
		return "", err
	}
	v1alpha1.SetMQTTRuleDefaults(&r.Rule)
	if problems := v1alpha1.ValidateMQTTRule(&r.Rule); len(problems) > 0 {
		return "", &control.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf("this is no rule: %v", problems.ToAggregate())}
	}
	for _, name := range r.Bases {
		m, err := running.fleet.Find(name)
		if err != nil {
			return "", asNotFound(err)
		}
		if m.Tunnel != v1alpha1.TunnelMQTT {
			return "", &control.Error{Code: http.StatusConflict, Message: fmt.Sprintf("base %s talks over HTTP: it has no way to the broker", name)}
		}
	}
	err = running.ways.Set(mqttview.Status{MQTTRule: r.Rule, Bases: r.Bases, Replica: r.Replica, Group: r.Group})
	if errors.Is(err, mqttview.ErrTwice) {
		return "", &control.Error{Code: http.StatusConflict, Message: err.Error()}
	}
	return r.Rule.ID, err
}

// ClearMQTTRule ends a rule of a group, or all.
func (d *Daemon) ClearMQTTRule(group, id string) error {
	running, err := d.isUp()
	if err != nil {
		return err
	}
	return asNotFound(running.ways.Clear(group, id))
}

// MQTTRules tells the rules of a group, of all if it is empty.
func (d *Daemon) MQTTRules(group string) ([]control.MQTTRule, error) {
	running, err := d.isUp()
	if err != nil {
		return nil, err
	}
	return running.ways.Rules(group), nil
}

// party tells whose an identity is that clients of the broker have.
func (d *Daemon) party(identity string) mqttview.Party {
	s, assembled := d.assembled()
	if !assembled {
		return mqttview.Party{}
	}
	if m, is := s.fleet.ByIdentity(identity); is {
		return mqttview.Party{Base: m.HostName, Group: m.Group}
	}
	return mqttview.Party{Replica: s.runner.Replica(identity)}
}
