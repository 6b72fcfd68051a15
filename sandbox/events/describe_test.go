package events

import "testing"

func TestStackTraceIsOneLine(t *testing.T) {
	e := Event{Module: &ModuleEvent{Base: "base-1", ModuleRef: ModuleRef{Name: "stock", Version: "1.0.0"},
		From: ModuleResolved, State: ModuleBroken,
		Message: "InvocationTargetException\n\tat com.alipay.sofa"}}
	if got, want := e.String(), "module base-1: stock:1.0.0 RESOLVED → BROKEN: InvocationTargetException"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}
