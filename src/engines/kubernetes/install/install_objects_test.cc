#include "engines/kubernetes/install/install_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longhaul::engines::kubernetes {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr InstallPart kParts[] = {InstallPart::kDefinition, InstallPart::kScheduler,
                                  InstallPart::kOperator, InstallPart::kFlowSchema,
                                  InstallPart::kNodeHealth};

std::vector<InstallObject> ObjectsOf(InstallPart part) {
  const Result<std::string> text = ManifestOf(part, "registry.test/a/longhaul@sha256:0a");
  EXPECT_TRUE(text.ok()) << text.status();
  Result<std::vector<InstallObject>> objects = ReadInstallObjects(part, *text);
  EXPECT_TRUE(objects.ok()) << objects.status();
  return *std::move(objects);
}

std::vector<std::string> LabelsOf(InstallPart part) {
  std::vector<std::string> labels;
  for (const InstallObject& object : ObjectsOf(part)) labels.push_back(object.label);
  return labels;
}

TEST(InstallObjects, EveryPartHasItsObjects) {
  EXPECT_THAT(LabelsOf(InstallPart::kDefinition),
              testing::ElementsAre("CustomResourceDefinition longhauljobs.longhaul.dev"));
  const std::vector<std::string> scheduler = LabelsOf(InstallPart::kScheduler);
  EXPECT_EQ(scheduler.front(), "Namespace longhaul") << "before what is in it";
  EXPECT_THAT(scheduler, Contains("Deployment longhaul-scheduler"));
  EXPECT_THAT(LabelsOf(InstallPart::kOperator), Contains("ClusterRole longhaul-operator"));
  EXPECT_THAT(LabelsOf(InstallPart::kOperator), Contains("PriorityClass longhaul-extra-worker"));
  EXPECT_THAT(LabelsOf(InstallPart::kFlowSchema), testing::ElementsAre("FlowSchema longhaul"));
  EXPECT_THAT(LabelsOf(InstallPart::kNodeHealth), Contains("Deployment longhaul-node-health"));
}

TEST(InstallObjects, ObjectsInNamespacesAreInThatOfLonghaulButTheRightToReportNodes) {
  for (const InstallPart part : kParts) {
    for (const InstallObject& object : ObjectsOf(part)) {
      const bool events = object.name.name == "longhaul-node-health-events";  // of nodes
      const std::string wanted = events ? "default" : "longhaul";
      EXPECT_EQ(object.name.namespace_name, object.resource.namespaced ? wanted : "")
          << object.label;
    }
  }
}

TEST(InstallObjects, TheImageIsTheGivenOneEverywhere) {
  for (const InstallPart part :
       {InstallPart::kScheduler, InstallPart::kOperator, InstallPart::kNodeHealth}) {
    const Result<std::string> text = ManifestOf(part, "registry.test/a/longhaul@sha256:0a");
    EXPECT_THAT(*text, HasSubstr("image: registry.test/a/longhaul@sha256:0a\n"));
    EXPECT_THAT(*text, Not(HasSubstr("registry.example")));
  }
  // The reasons are in the text.
  EXPECT_THAT(*ManifestOf(InstallPart::kScheduler, "a"), HasSubstr("# The decision itself."));
}

TEST(InstallObjects, AWrongImageIsRefused) {
  for (const std::string image : {"", "a b", "a\nb", "a\"", "{a}", "#"}) {
    EXPECT_FALSE(ManifestOf(InstallPart::kScheduler, image).ok()) << image;
  }
  EXPECT_FALSE(ManifestOf(InstallPart::kScheduler, std::string(600, 'a')).ok());
}

TEST(InstallObjects, AnUnknownKindIsRefused) {
  const auto objects = ReadInstallObjects(InstallPart::kScheduler,
                                          "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n");
  EXPECT_THAT(objects.status().message(), HasSubstr("Secret"));
}

TEST(InstallObjects, JobsAndTheirDefinitionStay) {
  EXPECT_TRUE(StaysInstalled(ObjectsOf(InstallPart::kDefinition).front()));
  for (const InstallObject& object : ObjectsOf(InstallPart::kScheduler)) {
    EXPECT_EQ(StaysInstalled(object), object.label == "Namespace longhaul") << object.label;
  }
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
