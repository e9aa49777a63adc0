#include "service/security/join_store.h"

#include <string_view>
#include <utility>

#include "base/text.h"
#include "service/security/secret.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kLargestFile = 4 << 20;
constexpr std::string_view kPrefix = "lhj_";

}  // namespace

// "lhj_" and 64 hex digits, a dot, and the 64 hex digits of the fingerprint by which the agent
// recognises the controller.
Result<JoinTokenText> ParseJoinToken(const std::string& text) {
  const std::string_view trimmed = Trim(text);
  const size_t dot = trimmed.find('.');
  if (dot != std::string_view::npos && trimmed.starts_with(kPrefix) &&
      IsHash(trimmed.substr(kPrefix.size(), dot - kPrefix.size())) &&
      IsHash(trimmed.substr(dot + 1))) {
    return JoinTokenText{std::string(trimmed.substr(0, dot)), std::string(trimmed.substr(dot + 1))};
  }
  return InvalidArgument("this is no join token (lhj_... of longhaul token create-join)");
}

Result<std::unique_ptr<JoinStore>> JoinStore::Open(std::unique_ptr<SecretDocument> document) {
  JoinTable table;
  const Result<std::string> text = document->Read(kLargestFile);
  if (text.ok()) {
    Result<JoinTable> parsed = JoinTable::Parse(*text);
    if (!parsed.ok()) {
      return parsed.status().WithContext(document->Place() +
                                         " is damaged, and without it used tokens and revoked "
                                         "certificates would be valid again: repair it, or remove "
                                         "it if no token is in use and nothing was revoked");
    }
    table = *std::move(parsed);
  } else if (text.status().code() != Code::kNotFound) {
    return text.status();
  }
  return std::unique_ptr<JoinStore>(new JoinStore(std::move(document), std::move(table)));
}

Status JoinStore::Replace(JoinTable changed) {
  RETURN_IF_ERROR(document_->Write(changed.Text()));
  table_ = std::move(changed);
  return {};
}

Result<std::string> JoinStore::Create(const std::string& node, const std::string& fingerprint,
                                      Instant expires, Instant now) {
  ASSIGN_OR_RETURN(const std::string secret, MakeSecret(kPrefix));
  const std::lock_guard lock(mutex_);
  JoinTable changed = table_;
  RETURN_IF_ERROR(changed.Add({HashOf(secret), node, expires, "", Instant()}, now));
  RETURN_IF_ERROR(Replace(std::move(changed)));
  return secret + "." + fingerprint;
}

// On disk before it returns: a token that was used must not become valid again by a crash.
Status JoinStore::Use(const std::string& secret, const std::string& node, Instant now) {
  const std::lock_guard lock(mutex_);
  JoinTable changed = table_;
  RETURN_IF_ERROR(changed.Use(secret, node, now));
  return Replace(std::move(changed));
}

Status JoinStore::NoteJoined(const std::string& node) {
  const std::lock_guard lock(mutex_);
  JoinTable changed = table_;
  ASSIGN_OR_RETURN(const bool is_new, changed.NoteJoined(node));
  return is_new ? Replace(std::move(changed)) : Status();
}

// On disk before it returns: a certificate that was revoked must not become valid by a crash.
Status JoinStore::Revoke(const std::string& node, Instant now) {
  const std::lock_guard lock(mutex_);
  JoinTable changed = table_;
  RETURN_IF_ERROR(changed.Revoke(node, now));
  return Replace(std::move(changed));
}

uint64_t JoinStore::GenerationOf(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  return table_.GenerationOf(node);
}

Status JoinStore::CheckGeneration(const std::string& node, uint64_t generation) const {
  const std::lock_guard lock(mutex_);
  return table_.CheckGeneration(node, generation);
}

}  // namespace longhaul::service
