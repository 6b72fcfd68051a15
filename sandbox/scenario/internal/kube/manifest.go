package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Objects takes the objects out of a decoded manifest; a List gives its items.
func Objects(document any) ([]*unstructured.Unstructured, error) {
	if document == nil {
		return nil, nil // between two separators
	}
	content, ok := document.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a manifest must be a mapping with apiVersion and kind")
	}
	o := &unstructured.Unstructured{Object: content}
	if o.GetAPIVersion() == "" || o.GetKind() == "" {
		return nil, fmt.Errorf("a manifest has no apiVersion or no kind")
	}
	if !o.IsList() {
		return []*unstructured.Unstructured{o}, nil
	}
	var all []*unstructured.Unstructured
	items, _, err := unstructured.NestedSlice(content, "items")
	if err != nil {
		return nil, fmt.Errorf("a %s: %w", o.GetKind(), err)
	}
	for _, item := range items {
		found, err := Objects(item)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}
