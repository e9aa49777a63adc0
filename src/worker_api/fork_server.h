// The protocol between an agent and a job's fork server, which forks workers on request.
//
// A fork server is a process that has loaded only a trainer's libraries; it forks workers in
// milliseconds. It is started as `longhaul-trainer --fork-server FD`, where FD is one end of a
// SOCK_SEQPACKET pair, and ends when the other end is closed. Each request is one packet with two
// descriptors (SCM_RIGHTS): the worker's standard output and standard error. The fork server
// answers each request with one WarmReply, in order.
//
//   packet = WarmRequest, then `environment_count` texts "KEY=VALUE", then `argument_count` texts,
//            every text ended by a NUL byte.
//
// The worker is a child of the agent: the agent is a subreaper (PR_SET_CHILD_SUBREAPER) and the
// parent of the fork server, which forks twice. The worker is alone in a new session, has exactly
// the environment of the request and /dev/null as standard input, and is killed when its agent
// dies. A worker that fails to start after the fork writes the reason to its standard error and
// exits with 1.
//
// Both ends are of one build and on one host, so structs are sent as they are in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"

namespace longhaul::worker_api {

constexpr uint32_t kWarmMagic = 0x4d52574c;  // "LWRM"
constexpr uint32_t kWarmVersion = 1;
constexpr size_t kMaxWarmRequestBytes = 128 * 1024;  // below the default wmem_max of 208 KiB

struct WarmRequest {
  uint32_t magic = kWarmMagic;
  uint32_t version = kWarmVersion;
  uint64_t id = 0;  // repeated in the reply
  uint32_t environment_count = 0;
  uint32_t argument_count = 0;
};

struct WarmReply {
  uint32_t magic = kWarmMagic;
  uint32_t error_number = 0;  // errno of what failed; 0: the worker runs
  uint64_t id = 0;
  int64_t pid = 0;  // of the worker
};
static_assert(std::is_trivially_copyable_v<WarmRequest> && sizeof(WarmRequest) == 24);
static_assert(std::is_trivially_copyable_v<WarmReply> && sizeof(WarmReply) == 24);

struct WarmStart {
  uint64_t id = 0;
  std::map<std::string, std::string> environment;
  std::vector<std::string> arguments;

  friend bool operator==(const WarmStart&, const WarmStart&) = default;
};

// Encodes a request. Returns kResourceExhausted when it is longer than kMaxWarmRequestBytes, and
// kInvalidArgument when a text contains a NUL byte or a key is empty or contains '='.
inline Result<std::vector<std::byte>> EncodeWarmRequest(const WarmStart& start) {
  WarmRequest request;
  request.id = start.id;
  request.environment_count = static_cast<uint32_t>(start.environment.size());
  request.argument_count = static_cast<uint32_t>(start.arguments.size());
  std::string text(reinterpret_cast<const char*>(&request), sizeof(request));
  const size_t texts_at = text.size();
  for (const auto& [key, value] : start.environment) {
    if (key.empty() || key.find('=') != std::string::npos) {
      return InvalidArgument("not the name of an environment variable: '" + key + "'");
    }
    text.append(key).append("=").append(value).push_back('\0');
  }
  for (const std::string& argument : start.arguments) text.append(argument).push_back('\0');
  size_t ends = 0;
  for (size_t i = texts_at; i < text.size(); ++i) ends += text[i] == '\0';
  if (ends != start.environment.size() + start.arguments.size()) {
    return InvalidArgument("a worker's environment or arguments hold a NUL byte");
  }
  if (text.size() > kMaxWarmRequestBytes) {
    return ResourceExhausted("a worker's environment and arguments take " +
                             std::to_string(text.size()) + " bytes, the limit is " +
                             std::to_string(kMaxWarmRequestBytes));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return std::vector<std::byte>(bytes, bytes + text.size());
}

// Decodes a request. Returns kInvalidArgument for anything that EncodeWarmRequest doesn't write.
inline Result<WarmStart> ParseWarmRequest(std::span<const std::byte> packet) {
  WarmRequest request;
  if (packet.size() < sizeof(request) || packet.size() > kMaxWarmRequestBytes) {
    return InvalidArgument("warm request of " + std::to_string(packet.size()) + " bytes");
  }
  std::memcpy(&request, packet.data(), sizeof(request));
  if (request.magic != kWarmMagic || request.version != kWarmVersion) {
    return InvalidArgument("warm request of another build");
  }
  WarmStart start;
  start.id = request.id;
  std::string_view rest(reinterpret_cast<const char*>(packet.data()), packet.size());
  rest.remove_prefix(sizeof(request));
  const uint64_t texts = uint64_t{request.environment_count} + request.argument_count;
  for (uint64_t i = 0; i < texts; ++i) {
    const size_t end = rest.find('\0');
    if (end == std::string_view::npos) return InvalidArgument("warm request is cut short");
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (i >= request.environment_count) {
      start.arguments.emplace_back(text);
      continue;
    }
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos ||
        !start.environment.emplace(text.substr(0, equals), text.substr(equals + 1)).second) {
      return InvalidArgument("warm request has a bad or repeated environment variable");
    }
  }
  if (!rest.empty()) return InvalidArgument("warm request has trailing bytes");
  return start;
}

}  // namespace longhaul::worker_api
