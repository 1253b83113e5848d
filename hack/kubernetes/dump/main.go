// Command dump writes engine/apiserver/data/kubernetes.bin: what the embedded API server knows of one
// Kubernetes release, read from a running stock kube-apiserver and from the Go types behind it.
//
//	go run ./dump KUBECONFIG OUTPUT [SAMPLES]
//
// The file is a line of magic, the length of an index (4 bytes, little endian), the index as JSON
// (name, offset and size of each entry) and the entries, each compressed with gzip by itself, so that
// an OpenAPI document can be sent to a client, or read, without touching the others. SAMPLES, if given,
// becomes engine/apiserver/src/protobuf/testdata/kinds.gz: an object of every kind as Go writes it.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const magic = "KOINON-DATA-1\n"

// Objects that a fresh kube-apiserver makes by itself.
var bootstrap = []string{
	"/api/v1/namespaces",
	"/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"/apis/rbac.authorization.k8s.io/v1/roles",
	"/apis/rbac.authorization.k8s.io/v1/rolebindings",
	"/apis/scheduling.k8s.io/v1/priorityclasses",
	"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
	"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
	"/apis/apiregistration.k8s.io/v1/apiservices",
}

type entry struct {
	Name   string `json:"name"`
	Offset int    `json:"offset"`
	Size   int    `json:"size"`
}

type archive struct {
	index []entry
	data  bytes.Buffer
}

func (a *archive) add(name string, content []byte) {
	start := a.data.Len()
	writer, _ := gzip.NewWriterLevel(&a.data, gzip.BestCompression)
	_, err := writer.Write(content)
	check(err)
	check(writer.Close())
	a.index = append(a.index, entry{name, start, a.data.Len() - start})
}

func main() {
	if len(os.Args) != 3 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: dump KUBECONFIG OUTPUT [SAMPLES]")
		os.Exit(2)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check(err)
	client := kubernetes.NewForConfigOrDie(config).RESTClient()
	get := func(path, accept string) []byte {
		body, err := client.Get().AbsPath(path).SetHeader("Accept", accept).DoRaw(context.Background())
		check(err)
		return body
	}

	var out archive
	out.add("version", get("/version", "application/json"))
	resources := discovery(get)
	out.add("discovery", resources)
	out.add("bootstrap", objects(get))
	out.add("go", compact(goTypes()))
	kinds := servedKinds(resources)
	out.add("protobuf", compact(protobufFields(kinds)))
	out.add("openapi/v2", get("/openapi/v2", "application/json"))
	out.add("openapi/v2.pb", get("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"))
	var documents struct {
		Paths map[string]any `json:"paths"`
	}
	check(json.Unmarshal(get("/openapi/v3", "application/json"), &documents))
	for _, path := range sorted(documents.Paths) {
		out.add("openapi/v3/"+path, get("/openapi/v3/"+path, "application/json"))
	}

	index := compact(out.index)
	var file bytes.Buffer
	file.WriteString(magic)
	check(binary.Write(&file, binary.LittleEndian, uint32(len(index))))
	file.Write(index)
	file.Write(out.data.Bytes())
	check(os.WriteFile(os.Args[2], file.Bytes(), 0o644))
	if len(os.Args) == 4 {
		check(os.WriteFile(os.Args[3], samples(kinds), 0o644))
	}
	fmt.Printf("%s: %d entries, %d bytes\n", os.Args[2], len(out.index), file.Len())
}

// The resources of every group and version, in the aggregated form.
func discovery(get func(string, string) []byte) []byte {
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	var items []any
	for _, path := range []string{"/api", "/apis"} {
		var list struct {
			Items []any `json:"items"`
		}
		check(json.Unmarshal(get(path, aggregated), &list))
		items = append(items, list.Items...)
	}
	return compact(items)
}

// The bootstrap objects, without what each server decides anew.
func objects(get func(string, string) []byte) []byte {
	var items []any
	for _, path := range bootstrap {
		var list struct {
			Kind       string           `json:"kind"`
			APIVersion string           `json:"apiVersion"`
			Items      []map[string]any `json:"items"`
		}
		check(json.Unmarshal(get(path, "application/json"), &list))
		for _, item := range list.Items {
			metadata := item["metadata"].(map[string]any)
			for _, key := range []string{"uid", "resourceVersion", "creationTimestamp"} {
				delete(metadata, key)
			}
			item["kind"] = strings.TrimSuffix(list.Kind, "List")
			item["apiVersion"] = list.APIVersion
			items = append(items, item)
		}
	}
	return compact(items)
}

func compact(value any) []byte {
	encoded, err := json.Marshal(value)
	check(err)
	return encoded
}

func sorted(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "dump:", err)
		os.Exit(1)
	}
}
