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

// Event is a failure to report. Empty fields are omitted from the message.
type Event struct {
	// TraceID identifies all events that belong to one change. It is the value of the label labels.Trace of a Pod.
	TraceID string
	// Scene is the operation that failed, for example vpod_deploy. Event is the failed step of the operation, for
	// example ContainerStart.
	Scene, Event string
	Result       string // result of the operation, for example FAILED
	// Code is the error code. The suggestion for the code is added to the message, if there is one.
	Code     errcode.Code
	Message  string // text for the user; body truncates it with arklet.SanitizeText
	TimeUsed time.Duration
	// Labels identify the affected objects, such as the Pod, the Node and the module.
	Labels map[string]string
}

// markdown is the request body of a Markdown message to a DingTalk robot.
type markdown struct {
	Type     string `json:"msgtype"`
	Markdown struct {
		Title string `json:"title"`
		Text  string `json:"text"`
	} `json:"markdown"`
}

// body returns the request body for a DingTalk robot, with the heading and fields of ModuleController V2 (upstream).
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

// markdownChars are the characters with a special meaning anywhere in Markdown. lineStartChars have a special meaning
// only at the beginning of a line.
const (
	markdownChars  = "\\`*_[]<>|~!"
	lineStartChars = "#+-="
)

// escape escapes a text for Markdown. The result contains no links, images or headings, and all of its lines stay in
// the list item.
func escape(text string) string {
	text = arklet.SanitizeText(text)
	var b strings.Builder
	atLineStart, afterDigits := false, false // the line has only space and digits so far; it has digits
	for i, c := range text {
		switch {
		case c == '\n':
			b.WriteString("\n  ")
			atLineStart, afterDigits = true, false
			continue
		case atLineStart && !afterDigits && (c == ' ' || c == '\t'):
			continue // an indented line would be a code block
		case atLineStart && c >= '0' && c <= '9':
			afterDigits = true
			b.WriteRune(c)
			continue
		case atLineStart && afterDigits && (c == '.' || c == ')'),
			atLineStart && !afterDigits && strings.ContainsRune(lineStartChars, c),
			strings.ContainsRune(markdownChars, c),
			c == ':' && strings.HasPrefix(text[i:], "://"):
			b.WriteByte('\\')
		}
		atLineStart = false
		b.WriteRune(c)
	}
	return b.String()
}
