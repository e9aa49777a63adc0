// Any bytes as the stream of a watch, as objects, and as a page: the view stays consistent.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/check.h"
#include "engines/kubernetes/protocol/objects/api_status.h"
#include "engines/kubernetes/protocol/objects/lease.h"
#include "engines/kubernetes/protocol/objects/node.h"
#include "engines/kubernetes/protocol/objects/pod.h"
#include "engines/kubernetes/protocol/objects/pod_group.h"
#include "engines/kubernetes/protocol/objects/volume.h"
#include "engines/kubernetes/protocol/watch_lines.h"
#include "engines/kubernetes/protocol/watch_state.h"

using namespace longhaul;
using namespace longhaul::engines::kubernetes;

namespace {

// The view that a consumer of the changes builds.
class Mirror final : public WatchSink {
 public:
  void OnChange(const Change& change) override {
    const std::string key = change.meta.Key();
    const bool known = uids_.contains(key);
    CHECK(known == (change.kind != ChangeKind::kAdded)) << key;
    if (known) CHECK(uids_[key] == change.meta.uid) << key;
    if (change.kind == ChangeKind::kDeleted) {
      uids_.erase(key);
    } else {
      uids_[key] = change.meta.uid;
      (void)ReadPodWithMeta(parser_, change.object, change.meta);
      (void)ReadNode(parser_, change.object);
      (void)ReadLease(parser_, change.object);
      (void)ReadPodGroup(parser_, change.object);
      (void)ReadVolumeClaim(parser_, change.object);
      (void)ReadVolume(parser_, change.object);
      (void)ReadStorageClass(parser_, change.object);
    }
  }
  void OnSynced() override {}
  void OnTrouble(const Status& status) override { CHECK(!status.ok()); }
  size_t size() const { return uids_.size(); }

 private:
  JsonParser parser_;
  std::map<std::string, std::string> uids_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t chunk = 1 + data[0];
  Instant now = InstantFromNanoseconds(0);
  Mirror mirror;
  WatchSettings settings;
  settings.path = "/api/v1/pods";
  WatchState state(settings, 1, mirror);
  if (data[0] % 4 == 3) {
    // As pages: the server has no streaming lists.
    state.Next(now);
    state.OnRefused({Outcome::kInvalid, InvalidArgument("no"), std::nullopt}, now);
  }
  WatchLines lines(4'096);
  for (size_t at = 0; at < text.size(); at += chunk) {
    WatchState::Action action = state.Next(now);
    if (action.kind == WatchState::Kind::kWait) {
      CHECK(action.at > now);
      now = action.at;
      lines.Reset();
      action = state.Next(now);
      CHECK(action.kind != WatchState::Kind::kWait);
    }
    if (action.kind == WatchState::Kind::kList) {
      const PaddedString body(text.substr(at));
      state.OnPage(body.view(), now);
      continue;
    }
    bool ended = false;
    const Status status = lines.Append(text.substr(at, chunk), [&](PaddedText line) {
      ended = !state.OnLine(line, now);
      return ended ? CancelledError("ended") : Status();
    });
    if (!status.ok() && !ended) state.OnEnd(status, now);
    if (!status.ok()) lines.Reset();
    CHECK(state.objects() == mirror.size());
  }
  JsonParser parser;
  const PaddedString whole(text);
  (void)ReadApiStatus(parser, whole.view());
  (void)ReadLease(parser, whole.view());
  (void)ReadPodGroup(parser, whole.view());
  (void)ReadVolumeClaim(parser, whole.view());
  (void)ReadVolume(parser, whole.view());
  (void)ReadStorageClass(parser, whole.view());
  return 0;
}
