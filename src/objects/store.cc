#include "objects/store.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/xml.h"

namespace longhaul::objects {
namespace {

constexpr uint64_t kShortAnswer = 1 << 20;      // errors, ids
constexpr uint64_t kListingAnswer = 16u << 20;  // a page of 1000 keys has about 1 MiB
constexpr int kTries = 5;
constexpr Duration kFirstWait = std::chrono::milliseconds(200);  // then twice as long each time
constexpr size_t kMaxListed = 1'000'000;

bool MayPass(int status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

// Converts a refusal to a status. The message has the server's code and message and nothing else of
// its answer: some servers repeat the request's key there.
Status StatusOf(const Answer& answer, const std::string& what) {
  const Result<std::string> code = TextOf(answer.body, "Code");
  const Result<std::string> detail = TextOf(answer.body, "Message");
  std::string text = what + ": the object store answers " + std::to_string(answer.status);
  if (code.ok()) text += " " + Printable(*code);
  if (detail.ok() && !detail->empty()) text += ": " + Printable(*detail);
  const bool full = answer.status == 507 ||
                    (code.ok() && (*code == "QuotaExceeded" || code->ends_with("StorageFull")));
  if (full) return ResourceExhausted(text);
  switch (answer.status) {
    case 404:
      return NotFound(text);
    case 401:
    case 403:
      return PermissionDenied(text + " (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION)");
    case 412:
    case 416:
      return DataLoss(text + ": the object has changed");
    default:
      return MayPass(answer.status) ? Unavailable(text) : FailedPrecondition(text);
  }
}

std::string WhatOf(const Request& request) { return request.method + " s3:/" + request.path; }

std::string HeaderOf(const Answer& answer, const std::string& name) {
  const auto found = answer.headers.find(name);
  return found == answer.headers.end() ? "" : found->second;
}

Request For(std::string method, const std::string& bucket, const std::string& key) {
  Request request;
  request.method = std::move(method);
  request.path = "/" + bucket + (key.empty() ? "" : "/" + key);
  return request;
}

using Variable = std::function<std::optional<std::string>(const std::string& name)>;

std::string FirstOf(const Variable& variable, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto value = variable(name);
    if (value.has_value() && !value->empty()) return *value;
  }
  return "";
}

// The keys of a section of the credentials file.
Result<Credentials> FromFile(const std::string& text, const std::string& section) {
  Credentials credentials;
  bool inside = false;
  for (const std::string_view line : Split(text, '\n')) {
    const std::string_view trimmed = Trim(line);
    if (trimmed.starts_with("[")) inside = trimmed == "[" + section + "]";
    const size_t equals = trimmed.find('=');
    if (!inside || trimmed.starts_with("#") || equals == std::string_view::npos) continue;
    const std::string_view name = Trim(trimmed.substr(0, equals));
    const std::string value(Trim(trimmed.substr(equals + 1)));
    if (name == "aws_access_key_id") credentials.access_key = value;
    if (name == "aws_secret_access_key") credentials.secret_key = value;
    if (name == "aws_session_token") credentials.session_token = value;
  }
  if (credentials.access_key.empty() || credentials.secret_key.empty()) {
    return NotFound("no aws_access_key_id and aws_secret_access_key in section " + section);
  }
  return credentials;
}

Result<Credentials> FindCredentials(
    const Variable& variable, const std::function<Result<std::string>(const std::string&)>& read) {
  Credentials credentials{FirstOf(variable, {"AWS_ACCESS_KEY_ID"}),
                          FirstOf(variable, {"AWS_SECRET_ACCESS_KEY"}),
                          FirstOf(variable, {"AWS_SESSION_TOKEN"})};
  if (!credentials.access_key.empty() && !credentials.secret_key.empty()) return credentials;
  std::string path = FirstOf(variable, {"AWS_SHARED_CREDENTIALS_FILE"});
  if (path.empty()) path = FirstOf(variable, {"HOME"}) + "/.aws/credentials";
  std::string section = FirstOf(variable, {"AWS_PROFILE"});
  if (section.empty()) section = "default";
  const Result<std::string> text = read(path);
  Result<Credentials> found = text.ok() ? FromFile(*text, section) : text.status();
  if (found.ok()) return found;
  return Unauthenticated(
      "no credentials for the object store: set AWS_ACCESS_KEY_ID and "
      "AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE; " +
      path + ": " + found.status().message());
}

}  // namespace

Result<StoreOptions> OptionsFrom(
    const Variable& variable, const std::function<Result<std::string>(const std::string&)>& read) {
  StoreOptions options;
  const std::string region = FirstOf(variable, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (!region.empty()) options.region = region;
  options.certificates = FirstOf(variable, {"AWS_CA_BUNDLE"});
  const std::string endpoint = FirstOf(variable, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (endpoint.empty()) {
    options.host = "s3." + options.region + ".amazonaws.com";
  } else {
    const size_t colon = endpoint.find("://");
    options.scheme = endpoint.substr(0, colon);
    if (colon != std::string::npos) options.host = endpoint.substr(colon + 3);
    while (options.host.ends_with("/")) options.host.pop_back();
    const bool sound = (options.scheme == "http" || options.scheme == "https") &&
                       !options.host.empty() &&
                       options.host.find_first_of("/?#@ ") == std::string::npos;
    if (!sound) {
      return InvalidArgument("AWS_ENDPOINT_URL is not http://HOST[:PORT] or https://HOST[:PORT]: " +
                             Printable(endpoint));
    }
  }
  ASSIGN_OR_RETURN(options.credentials, FindCredentials(variable, read));
  return options;
}

Store::Store(StoreOptions options, std::unique_ptr<Transport> transport,
             std::function<Instant()> now, std::function<void(Duration)> wait)
    : options_(std::move(options)),
      transport_(std::move(transport)),
      now_(std::move(now)),
      wait_(std::move(wait)) {}

Result<Answer> Store::Ask(Request request, uint64_t limit, std::span<std::byte> into) {
  request.host = options_.host;
  const std::string what = WhatOf(request);
  Outgoing out;
  out.method = request.method;
  out.target = TargetOf(request);
  out.body = request.body;
  out.limit = limit;
  out.into = into;
  Duration pause = kFirstWait;
  for (int tried = 1;; ++tried, pause *= 2) {
    // Signed anew each time: a signature holds for minutes only.
    out.headers = Sign(request, options_.credentials, options_.region, now_());
    Result<Answer> answer = transport_->Send(out);
    const bool again =
        answer.ok() ? MayPass(answer->status) : answer.status().code() == Code::kUnavailable;
    if (!again || tried == kTries) {
      if (!answer.ok()) return answer.status().WithContext(what);
      if (answer->status / 100 != 2) return StatusOf(*answer, what);
      return answer;
    }
    wait_(pause);
  }
}

Result<Store::Facts> Store::Head(const std::string& bucket, const std::string& key) {
  Request request = For("HEAD", bucket, key);
  ASSIGN_OR_RETURN(const Answer answer, Ask(request, kShortAnswer));
  const Result<uint64_t> bytes = ParseUint64(HeaderOf(answer, "content-length"));
  if (!bytes.ok()) return DataLoss(WhatOf(request) + ": an answer without a length");
  return Facts{*bytes, HeaderOf(answer, "etag")};
}

Result<std::string> Store::Get(const std::string& bucket, const std::string& key, uint64_t limit) {
  const Request request = For("GET", bucket, key);
  ASSIGN_OR_RETURN(Answer answer, Ask(request, std::max(limit, kShortAnswer)));
  if (answer.body.size() > limit) {
    return ResourceExhausted(WhatOf(request) + ": more than " + std::to_string(limit) + " bytes");
  }
  return std::move(answer.body);
}

Status Store::GetRange(const std::string& bucket, const std::string& key, const std::string& tag,
                       uint64_t offset, std::span<std::byte> to) {
  if (to.empty()) return {};
  Request request = For("GET", bucket, key);
  request.headers["range"] =
      "bytes=" + std::to_string(offset) + "-" + std::to_string(offset + to.size() - 1);
  if (!tag.empty()) request.headers["if-match"] = tag;
  ASSIGN_OR_RETURN(const Answer answer, Ask(request, kShortAnswer, to));
  // A store without support for ranges answers 200 with the whole object.
  const bool partial = answer.status == 206 || offset == 0;
  if (!partial || answer.received != to.size()) {
    return DataLoss(WhatOf(request) + ": " + std::to_string(answer.received) + " bytes for " +
                    std::to_string(to.size()) + " at " + std::to_string(offset));
  }
  return {};
}

Status Store::Put(const std::string& bucket, const std::string& key,
                  std::span<const std::byte> bytes) {
  Request request = For("PUT", bucket, key);
  request.body = bytes;
  return Ask(request, kShortAnswer).status();
}

Status Store::Remove(const std::string& bucket, const std::string& key) {
  return Ask(For("DELETE", bucket, key), kShortAnswer).status();
}

Result<Listing> Store::List(const std::string& bucket, const std::string& prefix) {
  Listing all;
  std::string next;
  do {
    Request request = For("GET", bucket, "");
    request.query = {{"list-type", "2"}, {"delimiter", "/"}, {"prefix", prefix}};
    if (!next.empty()) request.query.emplace_back("continuation-token", next);
    ASSIGN_OR_RETURN(const Answer answer, Ask(request, kListingAnswer));
    Result<Listing> page = ParseListing(answer.body);
    if (!page.ok()) return page.status().WithContext(WhatOf(request));
    if (page->truncated && page->next == next) {
      return DataLoss(WhatOf(request) + ": a listing that doesn't get on");
    }
    std::move(page->objects.begin(), page->objects.end(), std::back_inserter(all.objects));
    std::move(page->prefixes.begin(), page->prefixes.end(), std::back_inserter(all.prefixes));
    if (all.objects.size() + all.prefixes.size() > kMaxListed) {
      return ResourceExhausted("s3://" + bucket + "/" + prefix + " holds over a million objects");
    }
    next = page->truncated ? page->next : "";
  } while (!next.empty());
  return all;
}

Result<std::string> Store::BeginParts(const std::string& bucket, const std::string& key) {
  Request request = For("POST", bucket, key);
  request.query = {{"uploads", ""}};
  ASSIGN_OR_RETURN(const Answer answer, Ask(request, kShortAnswer));
  Result<std::string> upload = TextOf(answer.body, "UploadId");
  if (!upload.ok()) return upload.status().WithContext(WhatOf(request));
  return upload;
}

Result<std::string> Store::PutPart(const std::string& bucket, const std::string& key,
                                   const std::string& upload, uint32_t number,
                                   std::span<const std::byte> bytes) {
  Request request = For("PUT", bucket, key);
  request.query = {{"partNumber", std::to_string(number)}, {"uploadId", upload}};
  request.body = bytes;
  ASSIGN_OR_RETURN(const Answer answer, Ask(request, kShortAnswer));
  std::string tag = HeaderOf(answer, "etag");
  if (tag.empty()) return DataLoss(WhatOf(request) + ": a part without an ETag");
  return tag;
}

Status Store::CompleteParts(const std::string& bucket, const std::string& key,
                            const std::string& upload, const std::vector<std::string>& tags) {
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < tags.size(); ++i) {
    body += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" +
            XmlEscape(tags[i]) + "</ETag></Part>";
  }
  body += "</CompleteMultipartUpload>";
  Request request = For("POST", bucket, key);
  request.query = {{"uploadId", upload}};
  request.body = std::as_bytes(std::span(body));
  ASSIGN_OR_RETURN(const Answer answer, Ask(request, kShortAnswer));
  // It may fail after the answer has begun with 200.
  if (const Result<std::string> code = TextOf(answer.body, "Code"); code.ok()) {
    return Unavailable(WhatOf(request) + ": the parts were not put together: " + Printable(*code));
  }
  return {};
}

Status Store::AbortParts(const std::string& bucket, const std::string& key,
                         const std::string& upload) {
  Request request = For("DELETE", bucket, key);
  request.query = {{"uploadId", upload}};
  return Ask(request, kShortAnswer).status();
}

}  // namespace longhaul::objects
