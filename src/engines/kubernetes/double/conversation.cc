#include "engines/kubernetes/double/conversation.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "io/clock.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr Duration kLongestWait = std::chrono::seconds(30);

}  // namespace

void Conversation::Until(std::string_view what, const std::function<bool()>& done) {
  const Instant deadline = io::MonotonicNow() + kLongestWait;
  while (!done()) {
    if (io::MonotonicNow() >= deadline || !status_.ok()) {
      if (status_.ok()) status_ = DeadlineExceeded("no end of: " + std::string(what));
      return;
    }
    loop_.RunOnce(std::chrono::milliseconds(100));
  }
}

Reply Conversation::Quietly(Result<Call> call) {
  // Shared with the callback, which is called even when this has stopped waiting.
  const auto reply = std::make_shared<std::optional<Reply>>();
  const std::string what = call.ok() ? call->Text() : call.status().message();
  const Result<Client::CallId> sent =
      client_.Send(std::move(call), [reply](const Reply& got) { *reply = got; });
  if (!sent.ok()) {
    if (status_.ok()) status_ = sent.status();
    return {};
  }
  Until(what, [&reply] { return reply->has_value(); });
  if (!*reply) return {};
  if ((*reply)->http_status == 0 && status_.ok()) status_ = (*reply)->verdict.status;
  return **reply;
}

Reply Conversation::Do(std::string_view label, Result<Call> call) {
  if (!call.ok()) {
    if (status_.ok()) status_ = call.status();
    return {};
  }
  const std::string method = call->method;
  const std::string target = call->target;
  Reply reply = Quietly(std::move(call));
  transcript_.Add(label, method, target, reply.http_status, reply.body);
  return reply;
}

Call RawGet(std::string target) { return RawCall("GET", std::move(target), "", ""); }

Call RawCall(std::string method, std::string target, std::string content_type, std::string body) {
  Call call;
  call.verb = "raw";
  call.method = std::move(method);
  call.target = std::move(target);
  call.content_type = std::move(content_type);
  call.body = std::move(body);
  return call;
}

std::string TextAt(const Reply& reply, const std::string& pointer) {
  const nlohmann::json body = nlohmann::json::parse(reply.body, nullptr, false);
  const nlohmann::json::json_pointer at(pointer);
  if (body.is_discarded() || !body.contains(at) || !body.at(at).is_string()) return "";
  return body.at(at);
}

}  // namespace longhaul::engines::kubernetes
