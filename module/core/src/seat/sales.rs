//! Seats that leave their sale or hold.

use super::claims::Seats;
use super::state::{Owner, SeatState, Show};
use super::venue::Seat;
use crate::invariant;

/// The seats of `from` that are free after a move: no sale moves to them.
pub(super) fn freed_by_move(from: &[Seat], to: &[Seat]) -> Seats {
    let mut taken = to.to_vec();
    taken.sort_unstable();
    from.iter().copied().filter(|seat| taken.binary_search(seat).is_err()).collect()
}

impl Show {
    /// Takes sold seats out of their sales.
    pub(super) fn leave_sales(&mut self, seats: &[Seat]) {
        for &seat in seats {
            match self.owner(seat) {
                Owner::Claim(id) => self.claims.drop_seat(id, seat),
                Owner::Free | Owner::Queued | Owner::Blocked => {
                    invariant!("a seat that leaves a sale is sold");
                }
            }
        }
    }

    /// Moves the sale of each seat of `from` (in ascending order) to the seat of `to` at the same place.
    pub(super) fn move_sales(&mut self, from: &[Seat], to: &[Seat]) {
        let mut moves: Vec<(u32, Seat, Seat)> = Vec::new();
        for (&from, &to) in from.iter().zip(to) {
            match self.owner(from) {
                Owner::Claim(id) => moves.push((id, from, to)),
                Owner::Free | Owner::Queued | Owner::Blocked => {
                    invariant!("a seat whose sale moves is sold");
                }
            }
        }
        self.give_up(&freed_by_move(from, to), SeatState::Sold);
        moves.sort_unstable();
        for of_sale in moves.chunk_by(|(one, ..), (other, ..)| one == other) {
            let Some(&(id, ..)) = of_sale.first() else { continue };
            for &(_, _, to) in of_sale {
                let was_sold = from.binary_search(&to).is_ok();
                let before = if was_sold { SeatState::Sold } else { SeatState::Free };
                self.hand_over(&[to], before, SeatState::Sold, Owner::Claim(id));
            }
            self.claims.replace_seats(id, of_sale.iter().map(|&(_, from, to)| (from, to)));
        }
    }

    /// A hold gives these seats up.
    pub(super) fn give_back(&mut self, id: u32, seats: &Seats) {
        if *seats == self.claims.get(id).seats {
            self.claims.remove(id);
        } else {
            seats.iter().for_each(|&seat| self.claims.drop_seat(id, seat));
        }
        self.give_up(seats, SeatState::Held);
    }
}
