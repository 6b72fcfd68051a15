// Package image writes container images as files, without a container engine.
//
//	layer.go     Layer: a layer on disk, with its digests
//	archive.go   Image, and Write: an archive that docker, podman and containerd load
//	static.go    OfProgram: the image of one static program
//
// The archive is an image layout of the OCI specification (image-layout, version 1.0) as one tar file, with the manifest.json
// beside it that docker read before it knew layouts.
package image
