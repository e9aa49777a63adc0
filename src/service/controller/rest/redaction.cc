#include "service/controller/rest/redaction.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace longhaul::service {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

// The environment in a job file's JSON; a text that is no such JSON is dropped whole.
std::string WithoutEnvironment(const std::string& text) {
  if (text.empty()) return text;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return kRedacted;
  const auto environment = json.find("environment");
  if (environment == json.end() || !environment->is_object()) return text;
  for (auto& [name, value] : environment->items()) value = kRedacted;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void RedactEnvironment(proto::Job& job) {
  for (auto& [name, value] : *job.mutable_workload()->mutable_environment()) value = kRedacted;
  job.set_spec_json(WithoutEnvironment(job.spec_json()));
}

// By reflection, so that a job in a message of any kind is found, also in one that is added later.
// Maps are left out: no message has a map of jobs.
void RedactJobs(Message& message) {
  if (message.GetDescriptor() == proto::Job::descriptor()) {
    return RedactEnvironment(static_cast<proto::Job&>(message));
  }
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    if (!field->is_repeated()) {
      RedactJobs(*reflection.MutableMessage(&message, field));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      RedactJobs(*reflection.MutableRepeatedMessage(&message, field, i));
    }
  }
}

}  // namespace longhaul::service
