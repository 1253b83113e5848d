package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"sort"
	"strings"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// One object of every kind as Go writes it, for tests: lines of JSON and protobuf (base64), separated by
// a tab, in gzip. Half of what may be left out is; the same every time.
func samples(kinds map[string]reflect.Type) []byte {
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	sort.Strings(names)
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	var out bytes.Buffer
	for _, name := range names {
		object, ok := reflect.New(kinds[name]).Interface().(runtime.Object)
		if !ok {
			check(fmt.Errorf("%s is no object", name))
		}
		fill := filler{rand.New(rand.NewSource(int64(out.Len())))}
		fill.value(reflect.ValueOf(object).Elem(), 0)
		version, kind, found := strings.Cut(name, " ")
		if !found {
			version, kind = "v1", name
		}
		group, err := schema.ParseGroupVersion(version)
		check(err)
		object.GetObjectKind().SetGroupVersionKind(group.WithKind(kind))
		var encoded bytes.Buffer
		check(serializer.Encode(object, &encoded))
		// Protobuf does not know all that Go does, such as nil in a map: what counts is what Go reads.
		read := reflect.New(kinds[name]).Interface().(runtime.Object)
		_, _, err = serializer.Decode(encoded.Bytes(), nil, read)
		check(err)
		read.GetObjectKind().SetGroupVersionKind(group.WithKind(kind))
		text, err := json.Marshal(read)
		check(err)
		fmt.Fprintf(&out, "%s\t%s\n", text, base64.StdEncoding.EncodeToString(encoded.Bytes()))
	}
	var packed bytes.Buffer
	writer, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, err := writer.Write(out.Bytes())
	check(err)
	check(writer.Close())
	return packed.Bytes()
}

type filler struct{ random *rand.Rand }

func (f filler) value(value reflect.Value, depth int) {
	if f.known(value, depth) {
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		if f.present(depth) {
			value.Set(reflect.New(value.Type().Elem()))
			f.value(value.Elem(), depth)
		}
		// JSON cannot tell a pointer to the zero time from none.
		switch pointer := value.Interface().(type) {
		case *metav1.Time:
			if pointer.IsZero() {
				value.SetZero()
			}
		case *metav1.MicroTime:
			if pointer.IsZero() {
				value.SetZero()
			}
		}
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte{0, 255, byte(f.random.Intn(256))})
			return
		}
		for f.present(depth) && value.Len() < 2 {
			item := reflect.New(value.Type().Elem()).Elem()
			f.value(item, depth+1)
			value.Set(reflect.Append(value, item))
		}
	case reflect.Map:
		for f.present(depth) && value.Len() < 2 {
			key, item := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
			key.SetString(f.text())
			f.value(item, depth+1)
			if value.IsNil() {
				value.Set(reflect.MakeMap(value.Type()))
			}
			value.SetMapIndex(key, item)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Type().Field(i).Name != "TypeMeta" {
				f.value(value.Field(i), depth+1)
			}
		}
	case reflect.String:
		value.SetString(f.text())
	case reflect.Bool:
		value.SetBool(f.random.Intn(2) == 0)
	case reflect.Int32, reflect.Int64:
		value.SetInt([]int64{0, 1, -1, 300, 1<<31 - 1, -1 << 31}[f.random.Intn(6)])
	case reflect.Float64:
		value.SetFloat([]float64{0, 0.5, -1e10, 3, 1e-7}[f.random.Intn(5)])
	default:
		check(fmt.Errorf("no sample for %s", value.Type()))
	}
}

// Types whose JSON is not that of their fields.
func (f filler) known(value reflect.Value, depth int) bool {
	raw := []byte([]string{`{"a":1}`, `["x"]`, `"text"`, `{"f:a":{".":{}}}`}[f.random.Intn(4)])
	seconds := time.Unix(1600000000+f.random.Int63n(1e8), 0)
	switch known := value.Addr().Interface().(type) {
	case *metav1.Time:
		if f.present(depth) {
			known.Time = seconds
		}
	case *metav1.MicroTime:
		if f.present(depth) {
			known.Time = seconds.Add(time.Duration(f.random.Intn(1e6)) * time.Microsecond)
		}
	case *resource.Quantity:
		*known = resource.MustParse([]string{"0", "1500m", "12Gi", "1e3", "0.5"}[f.random.Intn(5)])
	case *intstr.IntOrString:
		*known = []intstr.IntOrString{intstr.FromInt32(8080), intstr.FromString("25%"), intstr.FromInt32(-1)}[f.random.Intn(3)]
	case *runtime.RawExtension:
		known.Raw = raw
	case *metav1.FieldsV1:
		known.Raw = raw
	case *apiextensions.JSON:
		known.Raw = raw
	case *apiextensions.JSONSchemaProps:
		return depth > 7
	case *apiextensions.JSONSchemaPropsOrBool:
		known.Allows = f.random.Intn(2) == 0
		if known.Allows && f.present(depth) {
			known.Schema = &apiextensions.JSONSchemaProps{Type: f.text()}
		}
	case *apiextensions.JSONSchemaPropsOrArray:
		known.Schema = &apiextensions.JSONSchemaProps{Type: f.text()}
		if f.present(depth) {
			known.JSONSchemas, known.Schema = []apiextensions.JSONSchemaProps{*known.Schema, {}}, nil
		}
	case *apiextensions.JSONSchemaPropsOrStringArray:
		known.Schema = &apiextensions.JSONSchemaProps{Type: f.text()}
		if f.present(depth) {
			known.Property, known.Schema = []string{f.text(), ""}, nil
		}
	default:
		return false
	}
	return true
}

func (f filler) present(depth int) bool {
	return f.random.Intn(10) < max(2, 8-depth)
}

func (f filler) text() string {
	return []string{"", "a", "bc", "some-name", "example.com/x", "é<&>"}[f.random.Intn(6)]
}
