package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Event is a failure. Empty fields are omitted from the message.
type Event struct {
	// TraceID is the same for all events of a change; from the label labels.Trace of a Pod.
	TraceID string
	// Scene is an operation and Event is its step, for example vpod_deploy and ContainerStart.
	Scene, Event string
	Result       string // for example FAILED
	// Code has a suggestion that is added to the message.
	Code     errcode.Code
	Message  string // shortened as by arklet.Text
	TimeUsed time.Duration
	// Labels name the Pod, the Node, the module and so on.
	Labels map[string]string
}

// markdown is a message to a DingTalk robot.
type markdown struct {
	Type     string `json:"msgtype"`
	Markdown struct {
		Title string `json:"title"`
		Text  string `json:"text"`
	} `json:"markdown"`
}

// body returns the event as a request to a DingTalk robot, with the heading and the fields of ModuleController V2.
func (e Event) body() ([]byte, error) {
	var text strings.Builder
	text.WriteString("# MC告警\n")
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&text, "\n- %s: %s", name, value)
		}
	}
	field("Trace ID", escape(e.TraceID))
	field("工单类型", e.Scene)
	field("节点", e.Event)
	field("结果", e.Result)
	field("失败信息", escape(e.Message))
	field("错误代码", escape(string(e.Code)))
	if info, ok := errcode.Lookup(string(e.Code)); ok && info.Suggestion != "" {
		field("解决方案", info.SuggestionZH)
	}
	if e.TimeUsed > 0 {
		field("耗时", e.TimeUsed.Round(time.Millisecond).String())
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(e.Labels)) {
		labels = append(labels, key+"="+escape(e.Labels[key]))
	}
	field("部署信息", strings.Join(labels, ", "))

	message := markdown{Type: "markdown"}
	message.Markdown.Title = "Log Notification"
	message.Markdown.Text = text.String()
	return json.Marshal(message)
}

// marks are special characters of Markdown anywhere in a text, begins are special at the beginning of a line.
const (
	marks  = "\\`*_[]<>|~!"
	begins = "#+-="
)

// escape escapes a text for Markdown, so that it has no links, pictures and headings, and its lines stay in their field.
func escape(text string) string {
	text = arklet.Text(text)
	var b strings.Builder
	first, number := false, false // on its line there was space alone, and then digits
	for i, c := range text {
		switch {
		case c == '\n':
			b.WriteString("\n  ")
			first, number = true, false
			continue
		case first && !number && (c == ' ' || c == '\t'):
			continue // enough of it would make a block of code
		case first && c >= '0' && c <= '9':
			number = true
			b.WriteRune(c)
			continue
		case first && number && (c == '.' || c == ')'),
			first && !number && strings.ContainsRune(begins, c),
			strings.ContainsRune(marks, c),
			c == ':' && strings.HasPrefix(text[i:], "://"):
			b.WriteByte('\\')
		}
		first = false
		b.WriteRune(c)
	}
	return b.String()
}
