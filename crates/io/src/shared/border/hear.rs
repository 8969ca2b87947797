//! From the tenant to the main side: what it gives back, drops and makes, checked.

use weir_packet::SaidMeta;

use super::tenant::{Slot, Tenant};
use super::{Border, CREDIT_PER_PACKET, Entry, Offence};

impl Border {
    /// Looks at what the tenant gave back. Called often: it costs little where
    /// there is nothing.
    pub fn hear(&mut self) {
        if let Some(mut tenant) = self.tenant.take() {
            let [mut from, mut freed] = std::mem::take(&mut self.numbers);
            let taken = self.take_returned(&mut tenant, &mut from, &mut freed);
            from.clear();
            freed.clear();
            self.numbers = [from, freed];
            match taken {
                Ok(()) => {
                    tenant.supply();
                    self.tenant = Some(tenant);
                }
                Err(offence) => {
                    self.tenant = Some(tenant);
                    self.expel_for(offence);
                }
            }
        }
        self.lend_pending();
        self.finish();
    }

    fn take_returned(
        &mut self,
        tenant: &mut Tenant,
        from: &mut Vec<u32>,
        freed: &mut Vec<u32>,
    ) -> Result<(), Offence> {
        let done = tenant.hear(from, freed)?;
        for &descriptor in from.iter() {
            match tenant.named(descriptor)? {
                (number, Slot::Abandoned(_)) if !self.settings.makes || !tenant.made(number) => {
                    tenant.take_back(number);
                    self.add_credit();
                }
                // The frame of a packet that it dropped may hold one that it made
                // before its word on the drop was looked at.
                (number, Slot::Lent(seq)) if self.settings.makes && tenant.made(number) => {
                    self.resolve(tenant, seq, true);
                    self.take_made(tenant, number)?;
                }
                (number, Slot::Lent(seq)) => self.take_back(tenant, number, seq)?,
                (number, _) => self.take_made(tenant, number)?,
            }
        }
        for &descriptor in freed.iter() {
            let (number, slot) = tenant.named(descriptor)?;
            tenant.take_back(number);
            match slot {
                Slot::Lent(seq) => self.resolve(tenant, seq, false),
                Slot::Abandoned(_) => self.add_credit(),
                Slot::Spare | Slot::Free => {}
            }
        }
        for _ in 0..done.unwrap_or(0) {
            let lent = self.lent.pop_front();
            let internal = &mut self.counts.internal;
            let Some((seq, number)) = internal.expect(lent, "no more is done than was lent") else {
                break;
            };
            if tenant.leave_abandoned(number, seq) {
                self.add_credit();
            } else {
                // Not given back by now: its frame is one to make packets of.
                self.resolve(tenant, seq, true);
            }
        }
        Ok(())
    }

    fn entry(&mut self, seq: u64) -> Option<&mut Entry> {
        let place = seq.checked_sub(self.first)?;
        let entry = self.window.get_mut(usize::try_from(place).ok()?)?;
        entry.with.is_some().then_some(entry)
    }

    /// The tenant is done with an entry: a packet that it did not give back is
    /// dropped. With `keeps` it still has the frame.
    fn resolve(&mut self, tenant: &mut Tenant, seq: u64, keeps: bool) {
        let Some(entry) = self.entry(seq) else { return };
        let number = entry.with.take();
        if !entry.is_notice
            && let Some(frame) = entry.frame.take()
        {
            self.counts.dropped += 1;
            self.to_pool.push(frame);
        }
        if let (true, Some(number)) = (keeps, number) {
            tenant.leave(number);
        }
        self.moved();
    }

    /// The tenant is done with one: something moves.
    fn moved(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        self.add_credit();
    }

    fn add_credit(&mut self) {
        self.progress = None;
        self.credit = (self.credit + CREDIT_PER_PACKET).min(self.settings.most_wait);
    }

    /// An entry came back in the tenant's frame `number`.
    fn take_back(&mut self, tenant: &mut Tenant, number: u32, seq: u64) -> Result<(), Offence> {
        let checked = self.check(tenant, number, seq);
        tenant.take_back(number);
        let Some(entry) = self.entry(seq) else {
            return Err(Offence::NotLent);
        };
        entry.with = None;
        if checked.is_err()
            && let Some(frame) = entry.frame.take()
        {
            self.to_pool.push(frame);
            self.counts.refused += 1;
        }
        self.last = self.last.max(seq + 1);
        self.moved();
        checked
    }

    /// Takes over of a packet what the tenant may change of it.
    fn check(&mut self, tenant: &Tenant, number: u32, seq: u64) -> Result<(), Offence> {
        let place = seq.checked_sub(self.first).map(usize::try_from);
        let entry = place.and_then(|place| self.window.get_mut(place.ok()?));
        let Some(entry) = entry else {
            return Err(Offence::NotLent);
        };
        let Some(frame) = entry.frame.as_mut().filter(|_| !entry.is_notice) else {
            return Ok(());
        };
        let said = SaidMeta::read(&tenant.meta(number));
        if !self.exits.contains(said.next) {
            return Err(Offence::BadNext);
        }
        let (meta, room) = self.memory.split_mut(frame);
        if self.settings.writes {
            let (start, len) = (usize::from(said.start), said.len as usize);
            let end = start.checked_add(len);
            let bytes = end.and_then(|end| room.get_mut(start..end));
            let bytes = bytes.ok_or(Offence::BadRange)?;
            if !tenant.copy(number, start, bytes) {
                return Err(Offence::BadRange);
            }
            let grown = i64::from(said.len) - i64::from(meta.len);
            let wire = i64::from(meta.wire_len) + grown;
            meta.wire_len = u32::try_from(wire).unwrap_or(said.len).max(said.len);
            (meta.start, meta.len) = (said.start, said.len);
        }
        meta.next = said.next;
        Ok(())
    }

    /// The tenant made a packet, in the frame `number`.
    fn take_made(&mut self, tenant: &mut Tenant, number: u32) -> Result<(), Offence> {
        let said = SaidMeta::read(&tenant.meta(number));
        if !self.settings.makes || !self.seen.knows(&said) {
            return Err(Offence::BadMade);
        }
        let (start, len) = (usize::from(said.start), said.len as usize);
        if start + len > tenant.room_of(number) {
            return Err(Offence::BadRange);
        }
        let mut frame = match self.fresh.pop() {
            Some(frame) if self.may_make > 0 => frame,
            frame => {
                self.fresh.extend(frame);
                self.counts.made_too_many += 1;
                tenant.take_back(number);
                return Ok(());
            }
        };
        let (meta, room) = self.memory.split_mut(&mut frame);
        let bytes = room.get_mut(start..start + len);
        let copied = bytes.is_some_and(|bytes| tenant.copy(number, start, bytes));
        tenant.take_back(number);
        if !copied {
            // One in a large frame: there are none for what is made.
            self.fresh.push(frame);
            self.counts.made_too_many += 1;
            return Ok(());
        }
        *meta = self.seen.meta(&said);
        self.may_make -= 1;
        self.counts.made += 1;
        self.made.push_back((self.last, frame));
        Ok(())
    }
}
