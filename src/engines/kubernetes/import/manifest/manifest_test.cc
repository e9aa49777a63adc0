#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engines/kubernetes/import/manifest/manifest_reader.h"
#include "engines/kubernetes/import/manifest/manifest_writer.h"
#include "engines/kubernetes/import/manifest/yaml_scalar.h"

namespace longhaul::engines::kubernetes {
namespace {

using testing::HasSubstr;

constexpr const char* kHead = "apiVersion: v1\nkind: A\n";

std::vector<Manifest> Read(const std::string& text) {
  const Result<std::vector<Manifest>> manifests = ReadManifests(text, "a.yaml");
  EXPECT_TRUE(manifests.ok()) << manifests.status();
  return manifests.ok() ? *manifests : std::vector<Manifest>();
}

std::string ReadError(const std::string& text) {
  const Result<std::vector<Manifest>> manifests = ReadManifests(text, "a.yaml");
  return manifests.ok() ? "no error" : manifests.status().message();
}

TEST(ManifestReader, ReadsDocumentsAndListsInOrder) {
  const std::vector<Manifest> manifests = Read(
      "# nothing\n---\napiVersion: v1\nkind: A\nmetadata: {name: x, namespace: ns}\n---\n---\n"
      "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: B}\n"
      "- {apiVersion: v1, kind: C, metadata: {name: z}}\n");
  ASSERT_EQ(manifests.size(), 3u);
  EXPECT_EQ(ToString(manifests[0].origin), "a.yaml: document 1: A ns/x");
  EXPECT_EQ(ToString(manifests[1].origin), "a.yaml: document 3, item 1: B");
  EXPECT_EQ(ToString(manifests[2].origin), "a.yaml: document 3, item 2: C z");
}

TEST(ManifestReader, ReadsScalarsAsKubernetesDoes) {
  const struct {
    const char* text;
    JobJson want;
  } kRows[] = {{"yes", true},
               {"Off", false},
               {"\"yes\"", "yes"},
               {"'1'", "1"},
               {"!!str 1", "1"},
               {"0644", 420},
               {"0o644", 420},
               {"0x1F", 31},
               {"0b101", 5},
               {"-7", -7},
               {"18446744073709551615", uint64_t{18446744073709551615u}},
               {"089", 89},
               {"1.5", 1.5},
               {".5", 0.5},
               {"1e3", 1000.0},
               {"-2.5e-1", -0.25},
               {"1.2.3", "1.2.3"},
               {"500m", "500m"},
               {"~", nullptr},
               {"", nullptr},
               {"a: b", JobJson{{"a", "b"}}},
               {"-", "-"},
               {"e5", "e5"},
               {"16Gi", "16Gi"}};
  for (const auto& row : kRows) {
    const std::string value = row.text == std::string("a: b") ? "{a: b}" : row.text;
    if (value == "-") continue;  // no value in a map of one line
    const std::vector<Manifest> manifests = Read(std::string(kHead) + "x: " + value + "\n");
    ASSERT_EQ(manifests.size(), 1u) << row.text;
    EXPECT_EQ(manifests[0].object["x"], row.want) << row.text;
  }
}

TEST(ManifestReader, ReadsJsonWithEscapesOfWideCharacters) {
  const std::vector<Manifest> manifests =
      Read(R"( {"apiVersion": "v1", "kind": "A", "x": "\ud83d\ude00 \/"} )");
  ASSERT_EQ(manifests.size(), 1u);
  EXPECT_EQ(manifests[0].object["x"], "\xF0\x9F\x98\x80 /");
}

TEST(ManifestReader, ReadsMapsOfYamlInBraces) {
  EXPECT_EQ(Read("{apiVersion: v1, kind: A}").size(), 1u);
}

TEST(ManifestReader, ResolvesAliasesAndMerges) {
  const std::vector<Manifest> manifests = Read(
      "apiVersion: v1\nkind: A\nbase: &b {p: 1, q: [1, 2]}\nmore: &m {q: 5, r: 6}\n"
      "one: {<<: *b, p: 2}\ntwo: {<<: [*b, *m]}\nthree: *b\nfour: {\"<<\": 1}\n");
  ASSERT_EQ(manifests.size(), 1u);
  const JobJson& object = manifests[0].object;
  EXPECT_EQ(object["one"], JobJson::parse(R"({"p": 2, "q": [1, 2]})"));
  EXPECT_EQ(object["two"], JobJson::parse(R"({"p": 1, "q": [1, 2], "r": 6})"));
  EXPECT_EQ(object["three"], object["base"]);
  EXPECT_EQ(object["four"], JobJson::parse(R"({"<<": 1})"));
}

// Nine to the power of six values, and as many again at each level.
TEST(ManifestReader, RefusesAliasesThatStandForTooMuch) {
  std::string text = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'h'; ++c) {
    const std::string alias = "*" + std::string(1, static_cast<char>(c - 1));
    text += std::string(1, c) + ": &" + std::string(1, c) + " [";
    for (int i = 0; i < 9; ++i) text += (i == 0 ? "" : ", ") + alias;
    text += "]\n";
  }
  EXPECT_THAT(ReadError(text), HasSubstr("a.yaml:6: the file has more than 200,000 values"));
}

TEST(ManifestReader, RefusesWhatCannotBeRead) {
  std::string deep = "x: ";
  for (int i = 0; i < 70; ++i) deep += "[";
  for (int i = 0; i < 70; ++i) deep += "]";
  std::string deep_aliases = "a0: &a0 [1]\n";
  for (int i = 1; i < 80; ++i) {
    const std::string number = std::to_string(i);
    deep_aliases += "a" + number + ": &a" + number + " [*a" + std::to_string(i - 1) + "]\n";
  }
  std::string deep_json = "{\"apiVersion\": \"v1\", \"x\": ";
  for (int i = 0; i < 100'000; ++i) deep_json += "[";
  for (int i = 0; i < 100'000; ++i) deep_json += "]";
  deep_json += "}";
  std::string keys = kHead;
  for (int i = 0; i < 2'100; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  std::string documents;
  for (int i = 0; i < 1'100; ++i) documents += "---\n{apiVersion: v1, kind: A}\n";
  std::string values = "[1";
  for (int i = 0; i < 200'000; ++i) values += ",1";
  const struct {
    std::string text;
    const char* want;
  } kRows[] = {
      {std::string((4 << 20) + 1, '#'), "a.yaml: has 4,194,305 bytes, expected at most 4 MiB"},
      {"a: \xFF", "a.yaml: is not UTF-8 text"},
      {std::string("a: \0", 4), "a.yaml: is not UTF-8 text"},
      {"a: [1, 2", "a.yaml:"},
      {"a: 'cut", "a.yaml:"},
      {"a: b: c", "a.yaml:1: not valid YAML"},
      {deep, "a.yaml:1: values are nested deeper than 64 levels"},
      {deep_aliases, "values are nested deeper than 64 levels"},
      {deep_json, "a.yaml: values are nested deeper than 64 levels"},
      {keys, "a.yaml:2001: a map has more than 2,000 keys"},
      {documents, "a.yaml: has more than 1,000 documents"},
      {"a: " + values + "]", "has more than 200,000 values"},
      {"{\"a\": " + values + "]}", "has more than 200,000 values"},
      {"a: &a [*a]", "a.yaml:1: an alias stands for a value that contains it"},
      {"a: *b", "a.yaml:1: not valid YAML"},
      {"a: 1\nb: 2\na: 3", "a.yaml:3: the key 'a' is there twice"},
      {"{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}}", "a.yaml: the key 'c' is there twice"},
      {"a: {<<: 3}", "a.yaml:1: '<<' has a value that is no map"},
      {"a: !!binary aGk=", "the tag tag:yaml.org,2002:binary is not supported"},
      {"a: !mine {b: 1}", "the tag !mine is not supported"},
      {"? [a]\n: b", "a key is a list or a map"},
      {"~: b", "a.yaml:1:"},
      {"a: .inf", "'.inf' is no number of at most 64 bits"},
      {"a: 99999999999999999999", "is no number of at most 64 bits"},
      {"a: 1e999", "is no number of at most 64 bits"},
      {"just a text", "a.yaml: document 1: is 'just a text', expected an object"},
      {"- 1", "a.yaml: document 1: is a list, expected an object"},
      {"kind: A", "a.yaml: document 1: A: has no apiVersion or no kind"},
      {"apiVersion: v1\nkind: List\nitems: 3", "items: expected a list of objects"},
      {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: []}]",
       "no List in a List"},
      {"apiVersion: v1\nkind: List\nitems: [3]", "document 1, item 1: is 3, expected an object"},
  };
  for (const auto& row : kRows) {
    EXPECT_THAT(ReadError(row.text), HasSubstr(row.want)) << row.text.substr(0, 60);
  }
}

TEST(ManifestWriter, WritesWhatIsReadBackAsItWas) {
  const JobJson object = JobJson::parse(R"({
      "apiVersion": "v1", "kind": "A", "empty": {}, "none": [], "null": null, "true": true,
      "yes": "yes", "number": "1e3", "date": "2026-01-31", "blank": "", "colon": "a: b",
      "port": "host:80", "end": "a:", "hash": "a #b", "quote": "it's \"x\" \\ y",
      "wide": "å 😀", "tab": "a\tb", "bell": "\u0007", "line": "\u2028", "flag": "--lr=1",
      "script": "set -e\n  cd /a\n\npython x.py\n", "tail": "a\nb", "ends": "a\n\n\n",
      "starts": "\na", "blanks": " a\nb", "merge": {"<<": 1}, "float": 0.5, "large": 1e300,
      "negative": -3, "nested": [[1, [2]], {"a": [{"b": "c\nd\n"}, {}]}, "x\ny"]})");
  const std::string yaml = ToYamlDocuments({object, object});
  const std::vector<Manifest> manifests = Read(yaml);
  ASSERT_EQ(manifests.size(), 2u) << yaml;
  EXPECT_EQ(manifests[0].object, object) << yaml;
  EXPECT_EQ(manifests[1].object, object);
  EXPECT_THAT(yaml, HasSubstr("script: |\n  set -e\n    cd /a\n\n  python x.py\n"));
  EXPECT_THAT(yaml, HasSubstr("\"yes\": \"yes\"\n")) << "a plain yes would be true";
  EXPECT_THAT(yaml, HasSubstr("wide: \"å 😀\"\n"));
}

TEST(ManifestWriter, WritesKeysThatAreLongerThanPlainOnesMayBe) {
  JobJson object = {{"apiVersion", "v1"}, {"kind", "A"}};
  object["a"][std::string(2'000, 'k')] = {{"b", 1}};
  object["a"][std::string(3'000, 'l')] = 7;
  const std::vector<Manifest> manifests = Read(ToYamlDocuments({object}));
  ASSERT_EQ(manifests.size(), 1u);
  EXPECT_EQ(manifests[0].object, object);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
