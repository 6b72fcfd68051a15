package lint

import (
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// kustomizePatches returns the names of the inputs that a kustomization.yaml in inputs lists as patches. Rules for
// objects do not apply to a patch, which is only a part of an object.
func kustomizePatches(inputs []Input) map[string]bool {
	names := map[string]bool{}
	for _, input := range inputs {
		directory, file := filepath.Split(input.Name)
		if file != "kustomization.yaml" && file != "kustomization.yml" {
			continue
		}
		var k struct {
			Patches, PatchesJSON6902 []struct{ Path string }
			PatchesStrategicMerge    []string
		}
		_ = yaml.Unmarshal(input.Text, &k) // read reports the error
		for _, p := range append(k.Patches, k.PatchesJSON6902...) {
			names[filepath.Join(directory, p.Path)] = p.Path != ""
		}
		for _, path := range k.PatchesStrategicMerge {
			names[filepath.Join(directory, path)] = true
		}
	}
	return names
}
