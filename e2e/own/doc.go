// Package own tests a controller that spec.controller.command names.
package own
