// For tests: an object store in memory as a Transport, which counts its requests and fails on
// request.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/xml.h"
#include "objects/files.h"
#include "objects/store.h"

namespace longhaul::objects {

// The state, which outlives the transports that use it; several threads may call these.
struct FakeBucket {
  std::mutex mutex;                            // held while a request is answered
  std::map<std::string, std::string> objects;  // by "bucket/key"
  std::map<std::string, std::pair<std::string, std::map<int, std::string>>> uploads;
  std::vector<std::string> asked;  // "METHOD target"
  // An answer instead of the store's own; none: the store's own.
  std::function<std::optional<Answer>(const std::string& method, const std::string& target)> fault;
  // Changes the store's own answer before it is returned.
  std::function<void(const std::string& method, Answer& answer)> alter;
  size_t page = 1000;  // keys in a listing
  int next_upload = 1;
};

class FakeTransport final : public Transport {
 public:
  explicit FakeTransport(std::shared_ptr<FakeBucket> bucket) : bucket_(std::move(bucket)) {}

  Result<Answer> Send(const Outgoing& request) override {
    const std::lock_guard lock(bucket_->mutex);
    bucket_->asked.push_back(request.method + " " + request.target);
    if (!request.headers.contains("authorization")) return Answer{403, {}, "<Error/>"};
    if (bucket_->fault) {
      if (auto answer = bucket_->fault(request.method, request.target); answer.has_value()) {
        return *answer;
      }
    }
    Answer answer = Do(request.method, request.target, request.headers,
                       {reinterpret_cast<const char*>(request.body.data()), request.body.size()});
    if (bucket_->alter) bucket_->alter(request.method, answer);
    if (answer.status / 100 == 2 && !request.into.empty()) {
      if (answer.body.size() > request.into.size()) return ResourceExhausted("too long");
      std::memcpy(request.into.data(), answer.body.data(), answer.body.size());
      answer.received = std::exchange(answer.body, "").size();
      return answer;
    }
    if (answer.body.size() > request.limit) return ResourceExhausted("too long");
    return answer;
  }

 private:
  using Query = std::map<std::string, std::string>;

  static std::string Decode(std::string_view text) {
    std::string decoded;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') {
        decoded += text[i];
        continue;
      }
      decoded += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    }
    return decoded;
  }
  static Answer Missing() { return {404, {}, "<Error><Code>NoSuchKey</Code></Error>"}; }
  static std::string TagOf(const std::string& body) {
    return "\"" + Sha256Hex(std::as_bytes(std::span(body))).substr(0, 32) + "\"";
  }

  Answer Do(const std::string& method, const std::string& target,
            const std::map<std::string, std::string>& headers, std::string body) {
    const size_t mark = std::min(target.find('?'), target.size());
    const std::string name = Decode(target.substr(1, mark - 1));
    Query query;
    if (mark < target.size()) {
      for (const std::string_view part : Split(std::string_view(target).substr(mark + 1), '&')) {
        const size_t equals = part.find('=');
        query[Decode(part.substr(0, equals))] = Decode(part.substr(equals + 1));
      }
    }
    if (query.contains("list-type")) return List(name, query);
    if (query.contains("uploads")) return Begin(name);
    if (query.contains("uploadId")) return Parts(method, name, query, std::move(body));
    if (method == "PUT") {
      bucket_->objects[name] = std::move(body);
      return {200, {{"etag", TagOf(bucket_->objects[name])}}, ""};
    }
    if (method == "DELETE") {
      bucket_->objects.erase(name);
      return {204, {}, ""};
    }
    return Read(method, name, headers);
  }

  Answer Read(const std::string& method, const std::string& name,
              const std::map<std::string, std::string>& headers) {
    const auto found = bucket_->objects.find(name);
    if (found == bucket_->objects.end()) return Missing();
    const std::string& object = found->second;
    Answer answer{200, {{"etag", TagOf(object)}}, object};
    answer.headers["content-length"] = std::to_string(object.size());
    if (method == "HEAD") answer.body.clear();
    const auto match = headers.find("if-match");
    if (match != headers.end() && match->second != TagOf(object)) return {412, {}, "<Error/>"};
    const auto range = headers.find("range");
    if (range == headers.end()) return answer;
    const std::string text = range->second.substr(6);
    const uint64_t from = *ParseUint64(text.substr(0, text.find('-')));
    const uint64_t to = *ParseUint64(text.substr(text.find('-') + 1));
    if (from >= object.size()) return {416, {}, "<Error/>"};
    answer.status = 206;
    answer.body = object.substr(from, to - from + 1);
    return answer;
  }

  Answer List(const std::string& bucket, const Query& query) {
    const std::string prefix = bucket + "/" + query.at("prefix");
    const std::string after =
        query.contains("continuation-token") ? query.at("continuation-token") : std::string();
    std::string xml = "<ListBucketResult>";
    std::string last;
    size_t listed = 0;
    for (const auto& [key, object] : bucket_->objects) {
      if (!key.starts_with(prefix)) continue;
      const size_t slash = key.find('/', prefix.size());
      const std::string shown = slash == std::string::npos ? key : key.substr(0, slash + 1);
      if (shown == last || (!after.empty() && shown <= after)) continue;
      if (listed++ == bucket_->page) {
        return {200,
                {},
                xml + "<IsTruncated>true</IsTruncated><NextContinuationToken>" + XmlEscape(last) +
                    "</NextContinuationToken></ListBucketResult>"};
      }
      last = shown;
      const std::string escaped = XmlEscape(shown.substr(bucket.size() + 1));
      xml += slash == std::string::npos
                 ? "<Contents><Key>" + escaped + "</Key><Size>" + std::to_string(object.size()) +
                       "</Size></Contents>"
                 : "<CommonPrefixes><Prefix>" + escaped + "</Prefix></CommonPrefixes>";
    }
    return {200, {}, xml + "<IsTruncated>false</IsTruncated></ListBucketResult>"};
  }

  Answer Begin(const std::string& name) {
    const std::string upload = "upload-" + std::to_string(bucket_->next_upload++);
    bucket_->uploads[upload] = {name, {}};
    return {200, {}, "<R><UploadId>" + upload + "</UploadId></R>"};
  }

  Answer Parts(const std::string& method, const std::string& name, const Query& query,
               std::string body) {
    const auto found = bucket_->uploads.find(query.at("uploadId"));
    if (found == bucket_->uploads.end() || found->second.first != name) return Missing();
    auto& parts = found->second.second;
    if (method == "PUT") {
      std::string& part = parts[std::stoi(query.at("partNumber"))];
      part = std::move(body);
      return {200, {{"etag", TagOf(part)}}, ""};
    }
    if (method == "POST") {
      std::string whole;
      for (const auto& [number, part] : parts) whole += part;
      bucket_->objects[name] = std::move(whole);
    }
    bucket_->uploads.erase(found);
    return {method == "POST" ? 200 : 204, {}, method == "POST" ? "<R/>" : ""};
  }

  const std::shared_ptr<FakeBucket> bucket_;
};

inline std::unique_ptr<Store> FakeStore(std::shared_ptr<FakeBucket> bucket) {
  StoreOptions options;
  options.host = "store.test";
  options.credentials = {"key", "secret", ""};
  return std::make_unique<Store>(
      options, std::make_unique<FakeTransport>(std::move(bucket)), [] { return Instant{}; },
      [](Duration) {});
}

// One request at a time by default.
inline std::unique_ptr<io::FileSystem> FakeFiles(std::shared_ptr<FakeBucket> bucket,
                                                 size_t part_bytes = 16u << 20, size_t requests = 1,
                                                 size_t window_bytes = 8u << 20) {
  return ObjectFiles(FakeStore(std::move(bucket)), {part_bytes, requests, window_bytes});
}

}  // namespace longhaul::objects
