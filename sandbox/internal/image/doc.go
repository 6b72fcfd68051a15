// Package image writes container images as files, without a container engine.
//
// The archive is an OCI image layout (version 1.0) in one tar file. It also has the manifest.json that older
// versions of docker require.
//
// The package does not use go-containerregistry v0.22, which compresses every layer twice with gzip or
// zstandard although a local engine needs no compression, writes several images in random order, so that equal
// images result in different archives, writes a layout only into a directory, and cannot create a layer from
// files.
package image
