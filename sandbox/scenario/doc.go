// Package scenario runs scenarios: rollouts with their disturbance, written in
// YAML, and judges them by what real requests got.
package scenario
