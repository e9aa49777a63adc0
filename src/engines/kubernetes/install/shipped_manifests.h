// The manifests of deploy/kubernetes, which this program carries with it.
#pragma once

#include <string_view>

namespace longhaul::engines::kubernetes {

// YAML, with the reasons as comments.
std::string_view DefinitionManifest();  // crd/longhauljob.yaml
std::string_view SchedulerManifest();
std::string_view OperatorManifest();
std::string_view FlowSchemaManifest();
std::string_view NodeHealthManifest();

}  // namespace longhaul::engines::kubernetes
