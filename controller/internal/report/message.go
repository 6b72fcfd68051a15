package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/koupleless/koupsandbox/controller/errcode"
)

// longest is how many bytes of Event.Message are sent. DingTalk takes 20,000 bytes a message; the
// rest of a stack trace helps nobody in a chat.
const longest = 4000

// Event is something that people should know of. Empty fields are left out of the message.
type Event struct {
	// TraceID ties the events of one change together; from the Pod's label labels.Trace.
	TraceID string
	// Scene is what was going on and Event the step of it, for example vpod_deploy and
	// ContainerStart.
	Scene, Event string
	// Result is how it ended, for example FAILED.
	Result string
	// Code says what went wrong; its suggestion is added to the message.
	Code errcode.Code
	// Message is what happened, in any length.
	Message string
	// TimeUsed is how long it took; zero if that is not known.
	TimeUsed time.Duration
	// Labels say what it is about: Pod, Node, module and so on.
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

// body returns the event as a request to a DingTalk robot. Heading and fields are the ones that
// upstream's operators know.
func (e Event) body() ([]byte, error) {
	var text strings.Builder
	text.WriteString("# MC告警\n")
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&text, "\n- %s: %s", name, value)
		}
	}
	field("Trace ID", e.TraceID)
	field("工单类型", e.Scene)
	field("节点", e.Event)
	field("结果", e.Result)
	field("失败信息", shorten(e.Message))
	field("错误代码", string(e.Code))
	if info, ok := errcode.Lookup(string(e.Code)); ok && info.Suggestion != "" {
		field("解决方案", info.SuggestionZH)
	}
	if e.TimeUsed > 0 {
		field("耗时", e.TimeUsed.Round(time.Millisecond).String())
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(e.Labels)) {
		labels = append(labels, key+"="+e.Labels[key])
	}
	field("部署信息", strings.Join(labels, ", "))

	message := markdown{Type: "markdown"}
	message.Markdown.Title = "Log Notification"
	message.Markdown.Text = text.String()
	return json.Marshal(message)
}

// shorten cuts a text to the longest that is sent, between two characters.
func shorten(text string) string {
	if len(text) <= longest {
		return text
	}
	end := longest
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
