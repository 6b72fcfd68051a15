package control

import (
	"context"
	"net/http"
	"net/url"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// SetController brings the module controllers to what is asked, starting again
// those that differ, and waits until all are ready. It returns what was before,
// so that the same call can put it back.
func (c *Client) SetController(ctx context.Context, r ControllerRequest) (before ControllerRequest, err error) {
	err = c.do(ctx, http.MethodPut, "/v1/controller", r, &before)
	return before, err
}

// Watch calls sink for every event, in order and one at a time: first what is,
// then one of kind Synced, then what changes. It blocks until ctx ends, and
// returns its cause; until the daemon ends, and returns nil; or until sink was
// so slow that events would be lost, and returns an *Error that says so.
func (c *Client) Watch(ctx context.Context, r WatchRequest, sink func(timeline.Event)) error {
	query := url.Values{}
	if r.Group != "" {
		query.Set("group", r.Group)
	}
	if r.Own {
		query.Set("own", "true")
	}
	return lines(ctx, c, http.MethodGet, "/v1/watch?"+query.Encode(), nil, func(l eventLine) error {
		if l.Error != nil {
			return l.Error
		}
		sink(l.Event)
		return nil
	})
}

// StartTraffic starts a stream of requests; its name is unique in the group. It
// goes on until it is stopped or the group goes.
func (c *Client) StartTraffic(ctx context.Context, group string, s traffic.Spec) error {
	return c.do(ctx, http.MethodPost, trafficPath(group), s, nil)
}

// Traffic tells how the streams of a group are, ended ones too.
func (c *Client) Traffic(ctx context.Context, group string) ([]traffic.Summary, error) {
	var all []traffic.Summary
	return all, c.do(ctx, http.MethodGet, trafficPath(group), nil, &all)
}

// StopTraffic stops a stream, waits for the answers that are on their way, at
// most for the timeout of a request, and returns what the stream has led to.
func (c *Client) StopTraffic(ctx context.Context, group, name string) (*traffic.End, error) {
	var end traffic.End
	return &end, c.do(ctx, http.MethodDelete, trafficPath(group)+"/"+url.PathEscape(name), nil, &end)
}

// TrafficRecords calls sink for every request of a stream so far.
func (c *Client) TrafficRecords(ctx context.Context, group, name string, sink func(traffic.Record)) error {
	return lines(ctx, c, http.MethodGet, trafficPath(group)+"/"+url.PathEscape(name)+"/records", nil, func(l recordLine) error {
		if l.Failure != nil {
			return l.Failure
		}
		sink(l.Record)
		return nil
	})
}

func trafficPath(group string) string { return "/v1/traffic/" + url.PathEscape(group) }
