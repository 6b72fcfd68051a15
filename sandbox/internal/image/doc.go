// Package image writes container images as files, without a container engine.
//
// The archive is an image layout of the OCI specification (image-layout, version 1.0) as one tar
// file, with the manifest.json beside it that docker read before it knew layouts.
//
// It is written by hand. go-containerregistry v0.22 compresses every layer of a tar file with gzip or
// zstandard, twice, where a local engine wants none; writes several images in the order of a map, so
// that the same images give another archive each time; writes a layout into a directory only; and makes
// no layer of files. What is left for it would save nothing.
package image
