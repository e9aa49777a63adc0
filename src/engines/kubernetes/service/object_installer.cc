#include "engines/kubernetes/service/object_installer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "engines/kubernetes/jobs/json_members.h"

namespace longhaul::engines::kubernetes {

ObjectInstaller::ObjectInstaller(Client& client, std::vector<InstallObject> objects, bool remove,
                                 bool force, Events events)
    : client_(client),
      objects_(std::move(objects)),
      remove_(remove),
      force_(force),
      events_(std::move(events)) {
  if (remove_) std::reverse(objects_.begin(), objects_.end());
}

void ObjectInstaller::Next() {
  if (next_ == objects_.size()) return events_.end();
  const InstallObject& object = objects_[next_++];
  if (!remove_) {
    return Send(object, ApplyCall(object.resource, object.name, "", object.object.dump(), force_));
  }
  // A deletion names the object that was seen.
  Send(object, GetCall(object.resource, object.name), [this, &object](const Reply& reply) {
    const JobJson found = JobJson::parse(reply.body, nullptr, false);
    const std::string uid = TextAt(MemberOf(found, "metadata"), "uid");
    Send(object, DeleteCall(object.resource, object.name, uid, std::nullopt));
  });
}

void ObjectInstaller::Send(const InstallObject& object, Result<Call> call,
                           std::function<void(const Reply&)> then) {
  Status failure = call.status();
  if (call.ok()) {
    const auto sent =
        client_.Send(*std::move(call), [this, &object, then = std::move(then)](const Reply& reply) {
          const bool absent = remove_ && reply.verdict.outcome == Outcome::kNotFound;
          if (reply.ok() && then) return then(reply);
          if (!reply.ok() && !absent) return Refuse(object, reply.verdict.status);
          const InstallResult done = remove_ ? InstallResult::kRemoved : InstallResult::kApplied;
          events_.done(object, absent ? InstallResult::kAbsent : done, {});
          Next();
        });
    failure = sent.status();
  }
  if (!failure.ok()) Refuse(object, failure);
}

void ObjectInstaller::Refuse(const InstallObject& object, const Status& status) {
  events_.done(object, InstallResult::kRefused, status);
  events_.end();
}

}  // namespace longhaul::engines::kubernetes
