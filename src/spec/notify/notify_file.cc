#include "spec/notify/notify_file.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "spec/internal/document.h"

namespace longhaul::spec {
namespace {

using HookNode = internal::Node;

constexpr size_t kMostHooks = 16;
constexpr size_t kMostWords = 64;
constexpr size_t kLongestWord = 4'096;
constexpr Duration kShortestTimeout = std::chrono::milliseconds(100);
constexpr Duration kLongestTimeout = std::chrono::minutes(5);
constexpr auto kHookKeys =
    std::to_array<std::string_view>({"webhook", "command", "events", "timeout"});
constexpr auto kHookEvents =
    std::to_array<std::string_view>({"state", "attempt", "fault", "recovered", "warning", "node",
                                     "end"});  // in the order of HookEvent

// What is between "https://" and the path, without credentials; empty: not such an address.
std::string HostOfAddress(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return "";
  std::string_view host = url.substr(scheme + 3);
  host = host.substr(0, host.find_first_of("/?#"));
  const size_t credentials = host.rfind('@');
  if (credentials != std::string_view::npos) host.remove_prefix(credentials + 1);
  return std::string(host);
}

bool IsWebAddress(std::string_view url) {
  if (url.size() > kLongestWord) return false;
  if (!url.starts_with("https://") && !url.starts_with("http://")) return false;
  const bool plain =
      std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return plain && !HostOfAddress(url).empty();
}

class HookReader {
 public:
  explicit HookReader(std::string_view source) : source_(source) {}

  Result<std::vector<HookSpec>> Read(const HookNode& root) const {
    const HookNode* list = internal::Find(root, "notify");
    if (list == nullptr || root.children.size() != 1 || list->kind != HookNode::Kind::kList) {
      return Refuse(root.line, "expected one key 'notify' with a list of hooks");
    }
    if (list->children.size() > kMostHooks) {
      return Refuse(list->line, "notify: " + std::to_string(list->children.size()) +
                                    " hooks are more than the limit of " +
                                    std::to_string(kMostHooks));
    }
    std::vector<HookSpec> hooks;
    for (const HookNode& child : list->children) {
      ASSIGN_OR_RETURN(HookSpec hook, ReadHook(child));
      hooks.push_back(std::move(hook));
    }
    return hooks;
  }

 private:
  Status Refuse(int line, const std::string& why) const {
    return InvalidArgument(std::string(source_) + ":" + std::to_string(line) + ": " + why);
  }

  Result<HookSpec> ReadHook(const HookNode& node) const {
    if (node.kind != HookNode::Kind::kMap) {
      return Refuse(node.line, "notify: expected a map such as {command: [./page.sh]}");
    }
    HookSpec hook;
    for (const HookNode& child : node.children) RETURN_IF_ERROR(ReadHookKey(child, hook));
    if (hook.webhook.empty() == hook.command.empty()) {
      return Refuse(node.line, "notify: a hook has either webhook or command");
    }
    return hook;
  }

  Status ReadHookKey(const HookNode& node, HookSpec& hook) const {
    if (node.key == "webhook") {
      if (node.kind != HookNode::Kind::kScalar || !IsWebAddress(node.text)) {
        return Refuse(node.line,
                      "webhook: expected an address that begins with https:// or http://, without "
                      "spaces");
      }
      hook.webhook = node.text;
      return {};
    }
    if (node.key == "command") return ReadCommand(node, hook);
    if (node.key == "events") return ReadEvents(node, hook);
    if (node.key == "timeout") {
      const auto timeout = node.kind == HookNode::Kind::kScalar
                               ? ParseDuration(node.text)
                               : Result<Duration>(InvalidArgument(""));
      if (!timeout.ok() || *timeout < kShortestTimeout || *timeout > kLongestTimeout) {
        return Refuse(node.line, "timeout: expected a duration from 100ms to 5min, such as 10s");
      }
      hook.timeout = *timeout;
      return {};
    }
    const auto nearest = Nearest(node.key, kHookKeys);
    return Refuse(node.key_line,
                  "notify: unknown key '" + Printable(node.key, 40) + "'" +
                      (nearest ? ": did you mean '" + std::string(*nearest) + "'?" : ""));
  }

  Status ReadCommand(const HookNode& node, HookSpec& hook) const {
    constexpr const char* kExpected =
        "command: expected a list of 1 to 64 words such as [./page.sh, --urgent]";
    if (node.kind != HookNode::Kind::kList || node.children.empty() ||
        node.children.size() > kMostWords) {
      return Refuse(node.line, kExpected);
    }
    for (const HookNode& word : node.children) {
      const bool good = word.kind == HookNode::Kind::kScalar && word.text.size() <= kLongestWord &&
                        word.text.find('\0') == std::string::npos;
      if (!good || (hook.command.empty() && word.text.empty())) {
        return Refuse(word.line, kExpected);
      }
      hook.command.push_back(word.text);
    }
    return {};
  }

  Status ReadEvents(const HookNode& node, HookSpec& hook) const {
    if (node.kind != HookNode::Kind::kList || node.children.empty()) {
      return Refuse(node.line, "events: expected a list such as [fault, end]");
    }
    hook.events.clear();
    for (const HookNode& child : node.children) {
      const auto* const found = std::find(kHookEvents.begin(), kHookEvents.end(), child.text);
      if (child.kind != HookNode::Kind::kScalar || found == kHookEvents.end()) {
        return Refuse(child.line, "events: '" + Printable(child.text, 40) +
                                      "' is not an event: state, attempt, fault, recovered, "
                                      "warning, node or end");
      }
      hook.events.push_back(static_cast<HookEvent>(found - kHookEvents.begin()));
    }
    return {};
  }

  const std::string_view source_;
};

}  // namespace

std::string_view NameOf(HookEvent event) { return kHookEvents.at(static_cast<size_t>(event)); }

std::string NameOf(const HookSpec& hook) {
  if (!hook.command.empty()) {
    return "command " + Printable(hook.command[0].substr(hook.command[0].rfind('/') + 1), 60);
  }
  return "webhook " + hook.webhook.substr(0, hook.webhook.find("://") + 3) +
         Printable(HostOfAddress(hook.webhook), 100);
}

Result<std::vector<HookSpec>> ParseNotifyFile(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(const HookNode root, internal::ParseDocument(text, source));
  return HookReader(source).Read(root);
}

}  // namespace longhaul::spec
