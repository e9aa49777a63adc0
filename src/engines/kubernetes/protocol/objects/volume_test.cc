#include "engines/kubernetes/protocol/objects/volume.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "engines/kubernetes/protocol/objects/pod.h"

namespace longhaul::engines::kubernetes::volume_test {
namespace {

constexpr std::string_view kClaim = R"({"metadata": {"name": "data", "namespace": "ns",
  "resourceVersion": "7", "uid": "u"}, "spec": {"accessModes": ["ReadWriteOnce",
  "ReadWriteOncePod"], "storageClassName": "fast", "volumeName": "pv-1"},
  "status": {"phase": "Bound"}})";
constexpr std::string_view kVolume = R"({"metadata": {"name": "pv-1", "resourceVersion": "7"},
  "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
  {"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}}}})";
constexpr std::string_view kClass = R"({"metadata": {"name": "fast", "resourceVersion": "7"},
  "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"})";

template <typename Read>
auto ReadWith(Read read, std::string_view text) {
  JsonParser parser;
  const PaddedString padded(text);
  return read(parser, padded.view());
}

std::string With(std::string_view text, std::string_view from, std::string_view to) {
  std::string changed(text);
  const size_t at = changed.find(from);
  CHECK(at != changed.npos) << from;
  return changed.replace(at, from.size(), to);
}

TEST(VolumeClaim, HasWhatASchedulerRequires) {
  const Result<VolumeClaim> claim = ReadWith(ReadVolumeClaim, kClaim);
  ASSERT_TRUE(claim.ok()) << claim.status();
  EXPECT_EQ(claim->meta.Key(), "ns/data");
  EXPECT_EQ(claim->volume, "pv-1");
  EXPECT_EQ(claim->storage_class, "fast");
  EXPECT_TRUE(claim->one_pod);
  EXPECT_TRUE(claim->bound());
  for (const char* const phase : {"Pending", "Lost", "New", ""}) {
    EXPECT_FALSE(ReadWith(ReadVolumeClaim, With(kClaim, "Bound", phase))->bound()) << phase;
  }
  EXPECT_FALSE(ReadWith(ReadVolumeClaim, With(kClaim, "pv-1", ""))->bound());
}

TEST(VolumeClaim, MayHaveNothingButAName) {
  const Result<VolumeClaim> claim =
      ReadWith(ReadVolumeClaim, R"({"metadata": {"name": "a", "namespace": "b",
        "resourceVersion": "1"}, "spec": {"accessModes": null, "volumeName": null}})");
  ASSERT_TRUE(claim.ok()) << claim.status();
  EXPECT_FALSE(claim->bound());
  EXPECT_FALSE(claim->one_pod);
}

TEST(Volume, HasItsNodeAffinity) {
  const Result<Volume> volume = ReadWith(ReadVolume, kVolume);
  ASSERT_TRUE(volume.ok()) << volume.status();
  ASSERT_TRUE(volume->node_terms.has_value());
  EXPECT_EQ(volume->node_terms->at(0).match_labels.at(0).values.at(1), "b");
  const Volume anywhere = *ReadWith(ReadVolume, R"({"metadata": {"name": "a",
    "resourceVersion": "1"}, "spec": {"nodeAffinity": {"required": null}}})");
  EXPECT_FALSE(anywhere.node_terms.has_value());
}

TEST(StorageClass, HasItsBindingMode) {
  EXPECT_TRUE(ReadWith(ReadStorageClass, kClass)->waits_for_consumer);
  EXPECT_FALSE(ReadWith(ReadStorageClass, With(kClass, "WaitForFirstConsumer", "Immediate"))
                   ->waits_for_consumer);
}

TEST(StorageClass, HasWhereItsVolumesAreMade) {
  const StorageClass anywhere = *ReadWith(ReadStorageClass, kClass);
  EXPECT_TRUE(anywhere.topologies.empty());
  EXPECT_TRUE(anywhere.makes_volumes());
  const StorageClass limited =
      *ReadWith(ReadStorageClass, With(kClass, R"("provisioner": "x")",
                                       R"("provisioner": "kubernetes.io/no-provisioner",
      "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]},
      {"key": "rack", "values": ["r"]}]}, {"matchLabelExpressions": null}])"));
  EXPECT_FALSE(limited.makes_volumes());
  ASSERT_EQ(limited.topologies.size(), 2u);
  ASSERT_EQ(limited.topologies[0].match_labels.size(), 2u);
  EXPECT_EQ(limited.topologies[0].match_labels[0].key, "zone");
  EXPECT_EQ(limited.topologies[0].match_labels[0].comparison, "In");
  EXPECT_EQ(limited.topologies[0].match_labels[0].values, (std::vector<std::string>{"a", "b"}));
}

TEST(VolumeClaim, HasTheNodeForWhichItsVolumeIsMade) {
  EXPECT_EQ(ReadWith(ReadVolumeClaim, kClaim)->selected_node(), "");
  const VolumeClaim claim =
      *ReadWith(ReadVolumeClaim, With(kClaim, R"("uid": "u")", R"("uid": "u", "annotations":
      {"volume.kubernetes.io/selected-node": "n", "other": "m"})"));
  EXPECT_EQ(claim.selected_node(), "n");
  EXPECT_EQ(claim.meta.annotations.size(), 1u);
}

TEST(VolumeObjects, RefuseAWrongTypeWithTheFieldsName) {
  const struct {
    Status status;
    const char* text;
  } kRows[] = {
      {ReadWith(ReadVolumeClaim, With(kClaim, R"(["ReadWriteOnce",)", R"([3,)")).status(),
       "claim.spec.accessModes[0] has the wrong type, expected a string"},
      {ReadWith(ReadVolumeClaim, With(kClaim, R"("pv-1")", "{}")).status(),
       "claim.spec.volumeName has the wrong type, expected a string"},
      {ReadWith(ReadVolumeClaim, With(kClaim, R"("namespace": "ns")", R"("x": 1)")).status(),
       "claim has no metadata.namespace"},
      {ReadWith(ReadVolume, With(kVolume, R"(["a", "b"])", R"([["a"]])")).status(),
       "volume.spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0] has "
       "the wrong type, expected a string"},
      {ReadWith(ReadStorageClass, With(kClass, R"("WaitForFirstConsumer")", "7")).status(),
       "storageClass.volumeBindingMode has the wrong type, expected a string"},
      {ReadWith(ReadStorageClass, With(kClass, R"("x")", R"("x", "allowedTopologies": [{
       "matchLabelExpressions": [{"values": [7]}]}])"))
           .status(),
       "storageClass.allowedTopologies[0].matchLabelExpressions[0].values[0] has the wrong type, "
       "expected a string"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(row.status.code(), Code::kInvalidArgument) << row.text;
    EXPECT_EQ(row.status.message(), row.text);
  }
}

TEST(VolumeObjects, AreRefusedWhenTheyAreCutAnywhere) {
  for (size_t length = 0; length + 2 < kClaim.size(); ++length) {
    ASSERT_FALSE(ReadWith(ReadVolumeClaim, kClaim.substr(0, length)).ok()) << length;
  }
  for (size_t length = 0; length + 2 < kVolume.size(); ++length) {
    ASSERT_FALSE(ReadWith(ReadVolume, kVolume.substr(0, length)).ok()) << length;
  }
}

TEST(Pod, HasTheClaimsThatAreMadeForIt) {
  const Pod pod = *ReadWith(ReadPod, R"({"spec": {"volumes": [
    {"ephemeral": {"volumeClaimTemplate": {}}, "name": "scratch"},
    {"name": "none", "ephemeral": null},
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    "metadata": {"name": "p", "namespace": "ns", "resourceVersion": "1"}})");
  EXPECT_EQ(pod.ephemeral_claims, std::vector<std::string>{"p-scratch"});
  EXPECT_EQ(pod.volume_claims, std::vector<std::string>{"data"});
}

}  // namespace
}  // namespace longhaul::engines::kubernetes::volume_test
