#!/usr/bin/env python3
"""Writes the example plans beside this file: a theatre, a stadium, a train and three halls with places, all invented.

Needs nothing but Python's standard library, and writes the same bytes every time.
"""

import json
import math
import uuid
from pathlib import Path

HERE = Path(__file__).parent


# The theatre, in the pretix seating-plan format: curved rows round the stage, the centre aisle a gap between positions.

SPACING, AISLE, ROW_PITCH = 50, 110, 90  # units of the drawing, which are centimetres
STAGE = (1600, 0)  # the centre of every row's circle
ROW_LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"  # no I: it reads as a 1
CATEGORIES = {
    "Premium": "#7B1E3A",
    "Category 1": "#C0562B",
    "Category 2": "#D9A441",
    "Category 3": "#4F7F6B",
    "Category 4": "#3C5A82",
}


def identity(name):
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"https://allot.invalid/theatre/{name}"))


def point(x, y):
    return {"x": round(x, 1), "y": round(y, 1)}


def consecutive(left, right):
    """1 2 3 | 4 5 6"""
    return [str(n) for n in range(1, left + right + 1)]


def odd_even(left, right):
    """5 3 1 | 2 4 6: counted outwards from the centre aisle"""
    return [str(2 * n - 1) for n in range(left, 0, -1)] + [str(2 * n) for n in range(1, right + 1)]


def arc(radius, left, right):
    """The positions of `left` and `right` seats on both sides of the aisle, from left to right, on a circle round the stage."""
    steps = [-AISLE / 2 - SPACING * n for n in range(left - 1, -1, -1)] + [AISLE / 2 + SPACING * n for n in range(right)]
    angles = [step / radius for step in steps]
    return [(STAGE[0] + radius * math.sin(a), STAGE[1] + radius * math.cos(a)) for a in angles]


def straight(x, y, count):
    return [(x, y + SPACING * n) for n in range(count)]


def theatre_row(zone, letter, numbers, places, category):
    name = f"{zone}-{letter}"
    x0, y0 = places[0]
    seats = [
        {
            "seat_number": number,
            "seat_guid": f"{name}-{number}",
            "uuid": identity(f"{name}-{number}"),
            "position": point(x - x0, y - y0),
            "category": category(at, len(numbers)),
        }
        for at, (number, (x, y)) in enumerate(zip(numbers, places, strict=True))
    ]
    return {
        "position": point(x0, y0),
        "row_number": letter,
        "row_number_position": "both" if len(seats) > 6 else "start",
        "seats": seats,
        "uuid": identity(name),
    }


def centre_of(better, other, share):
    """The middle `share` of a row costs more than its sides."""
    return lambda at, count: better if abs(at - (count - 1) / 2) < share * count / 2 else other


def always(category):
    return lambda at, count: category


def stalls():
    for n, letter in enumerate(ROW_LETTERS[:21]):
        left = right = 12 + n // 4
        category = always("Category 1") if n < 2 else centre_of("Premium", "Category 1", 0.6) if n < 12 else centre_of("Category 1", "Category 2", 0.7)
        numbers = odd_even if n < 12 else consecutive
        yield theatre_row("Stalls", letter, numbers(left, right), arc(900 + n * ROW_PITCH, left, right), category)


def mezzanine():
    for n, letter in enumerate(ROW_LETTERS[:10]):
        left, right = 15 + n // 4, 15 + n // 3
        category = always("Premium") if n < 2 else centre_of("Category 1", "Category 2", 0.5) if n < 6 else always("Category 2")
        yield theatre_row("Mezzanine", letter, consecutive(left, right), arc(3000 + n * ROW_PITCH, left, right), category)


def balcony():
    for n, letter in enumerate(ROW_LETTERS[:8]):
        left = right = 16 - n // 3
        category = always("Category 3") if n < 4 else always("Category 4")
        yield theatre_row("Balcony", letter, odd_even(left, right), arc(4100 + n * ROW_PITCH, left, right), category)


def boxes():
    for side, x in (("L", 300), ("R", 2900)):
        for n in range(1, 7):
            count = 4 if n < 5 else 5
            category = always("Category 2" if n < 3 else "Category 1")
            yield theatre_row("Boxes", f"{side}{n}", consecutive(count, 0), straight(x, 200 + n * 330, count), category)


def theatre():
    zones = [("Stalls", stalls), ("Mezzanine", mezzanine), ("Balcony", balcony), ("Boxes", boxes)]
    return {
        "name": "Example theatre",
        "categories": [{"name": name, "color": color} for name, color in CATEGORIES.items()],
        "zones": [
            {
                "name": name,
                "position": {"x": 0, "y": 0},
                "rows": list(rows()),
                "areas": [],
                "uuid": identity(name),
                "zone_id": name,
            }
            for name, rows in zones
        ],
        "size": {"width": 3200, "height": 5000},
    }


# The stadium, in Allot's own plan format: three tiers of stands, each a ring of blocks that are counted from the north clockwise.

SIDES = {"north": "end", "east": "long", "south": "end", "west": "long"}


def flagged(label, flag):
    return {"label": label, "flags": [flag]}


def platform(pairs):
    """A row for wheelchairs: each place with its companion's seat, and room to turn between the pairs."""
    seats = []
    for n in range(1, pairs + 1):
        seats += [None, flagged(f"W{n}", "wheelchair"), flagged(f"C{n}", "companion")]
    return seats[1:]


def behind_pillars(count, pillars):
    """A row with some seats behind a pillar."""
    return [flagged(str(n), "restricted-view") if n in pillars else {"label": str(n)} for n in range(1, count + 1)]


def rows_of(tiers, seats):
    return [{"label": str(n), "rank": n, "tier": tier, "seats": text} for n, (tier, text) in enumerate(zip(tiers, seats, strict=True), 1)]


def with_aisle(count):
    half = count // 2
    return f"1-{half},|,{half + 1}-{count}"


def rule_of(at, count):
    """The seats towards the middle of the stand come first."""
    middle = (count - 1) / 2
    return "center" if abs(at - middle) < 1 else "rtl" if at < middle else "ltr"


def lower(side, at, count):
    centre = rule_of(at, count) == "center"
    tiers = ["category-1" if SIDES[side] == "long" else "away" if side == "south" and at == 0 else "category-2"] * 24
    if side == "north" and at == 0:
        tiers = ["family"] * 12 + ["category-2"] * 12
    rows = rows_of(tiers, [with_aisle(22 + n // 3 * 2) for n in range(24)])
    if centre:
        rows.append({"label": "P", "rank": 25, "tier": tiers[-1], "seats": platform(14 if SIDES[side] == "long" else 10)})
    return rows, (1 if centre else 2) if SIDES[side] == "long" else 4


def middle(side, at, count):
    centre = rule_of(at, count) == "center"
    if SIDES[side] == "long":
        tiers = ["hospitality" if centre and side == "west" and n < 4 else "premium" for n in range(14)]
    else:
        tiers = ["category-1"] * 14
    return rows_of(tiers, [f"1-{24 + n // 2}" for n in range(14)]), (1 if centre else 2) if SIDES[side] == "long" else 3


def upper(side, at, count):
    depth = 21 if SIDES[side] == "long" else 18 if side == "north" else 20  # the screen is above the north
    tiers = ["category-2" if SIDES[side] == "long" and n < 10 else "category-3" for n in range(depth)]
    rows = rows_of(tiers, [f"1-{20 + n // 2}" for n in range(depth)])
    if at in (0, count - 1):  # the masts of the roof are at the ends
        rows[0]["seats"] = behind_pillars(20, (5, 6, 15, 16))
    return rows, 3 if SIDES[side] == "long" else 5


BLOCKS = {"long": 13, "end": 6}
STANDS = {"Lower": lower, "Middle": middle, "Upper": upper}


def stadium():
    areas = []
    for stand, block in STANDS.items():
        number = 0
        for side, shape in SIDES.items():
            count = BLOCKS[shape]
            for at in range(count):
                number += 1
                rows, priority = block(side, at, count)
                areas.append(
                    {
                        "id": f"{stand[0]}{number:02}",
                        "name": f"{stand} {side}, block {number}",
                        "priority": priority,
                        "rule": rule_of(at, count),
                        "rows": rows,
                    }
                )
    return {"areas": areas, "limits": {"seats_per_user": 6, "holds_per_user": 1, "max_hold_ms": 1_800_000}}


# Three halls whose plans say where each seat is, in metres. The measures are the usual ones: a pitch of 105 by 68, seats
# half a metre wide, rows 0.8 or 1 deep, round tables of 1.8 for eight people.


def placed(label, rank, tier, seats, at, step):
    """A straight row."""
    return {"label": label, "rank": rank, "tier": tier, "seats": seats, "at": [round(n, 2) for n in at], "step": step}


def blocks(count, seats):
    """Blocks of a row with aisles between them, as wide as two seats."""
    return ",|,|,".join(f"{1 + n * seats}-{(n + 1) * seats}" for n in range(count))


PITCH = (105, 68)
BALL_PARK = (80, 60)  # the middle of the pitch
# Name, blocks of a row, priority, and the way from seat to seat: who looks at the pitch has the first seat on the left.
BALL_PARK_STANDS = (("North", 5, 1, (-0.5, 0)), ("South", 5, 1, (0.5, 0)), ("East", 3, 2, (0, -0.5)), ("West", 3, 2, (0, 0.5)))


def ball_park():
    """Stands on all four sides of the pitch."""
    areas = []
    for name, count, priority, (dx, dy) in BALL_PARK_STANDS:
        width = 16 * count + 2 * (count - 1) - 1
        rows = []
        for n in range(1, 13):
            # Away from the pitch is to the right of the way along the row.
            along, away = (-dy * 2, dx * 2), PITCH[0 if dx == 0 else 1] / 2 + 6 + 0.8 * n
            at = [BALL_PARK[axis] + along[axis] * away - step * width / 2 for axis, step in enumerate((dx, dy))]
            rows.append(placed(str(n), n, "side" if dx else "end", blocks(count, 16), at, [dx, dy]))
        areas.append({"id": name.lower(), "name": f"{name} stand", "priority": priority, "rule": "focus", "rows": rows})
    return {"areas": areas, "focus": list(BALL_PARK), "limits": {"seats_per_user": 9}}


def concert_hall():
    """A long hall, drawn with the stage below: the plan lists its rows from the back."""
    letters = "ABCDEFGHJKLMNOPQ"
    rows = []
    for rank, n in enumerate(range(len(letters) - 1, -1, -1), 1):
        tier = "first" if n < 8 else "second"
        rows.append(placed(letters[n], rank, tier, blocks(2, 9), [5, 20 - n], [0.5, 0]))
    area = {"id": "hall", "name": "Hall", "rule": "focus", "rows": rows}
    return {"areas": [area], "focus": [9.75, 24], "limits": {"seats_per_user": 10}}


def gala():
    """Round tables of eight in front of a stage. Seat 1 is the one nearest the stage, and the others follow clockwise."""
    rows = []
    for n in range(20):
        x, y = 3.4 * (n % 5), 5 + 3.4 * (n // 5)
        angles = [math.radians(45 * seat - 90) for seat in range(8)]
        points = [[round(x + 1.2 * math.cos(a), 2), round(y + 1.2 * math.sin(a), 2)] for a in angles]
        rows.append({"label": f"T{n + 1}", "rank": n // 5 + 1, "tier": "dinner", "seats": "1-8", "points": points})
    area = {"id": "gala", "name": "Gala", "rule": "focus", "rows": rows}
    return {"areas": [area], "focus": [6.8, 0], "limits": {"seats_per_user": 10}}


# The train, as CSV. A coach is an area; letters run across it, and the aisle is a break.


def coach(tier, rows, seats, missing=()):
    """`seats` as 'AB|CD'; `missing` names places taken by a door, a luggage rack or a table."""
    for row in range(1, rows + 1):
        sides = [[s for s in side if f"{row}{s}" not in missing] for side in seats.split("|")]
        sides = [side for side in sides if side]
        for side in sides:
            for seat in side:
                aisle = seat == side[-1] and side is not sides[-1]
                yield str(row), seat, tier, "1" if aisle else ""


def train():
    first = [coach("first", 16, "A|CD") for _ in range(3)]
    business = [coach("business", 6, "A|CD")]  # the other half of the coach is the bistro
    accessible = [coach("standard", 16, "AB|CD", missing=("1A", "1B", "2A", "2B", "1C", "1D"))]
    family = [coach("family", 16, "AB|CD", missing=("8C", "8D"))]
    quiet = [coach("quiet", 18, "AB|CD") for _ in range(2)]
    standard = [coach("standard", 18, "AB|CD", missing=("1A", "18D")) for _ in range(8)]
    for number, places in enumerate(first + business + accessible + family + quiet + standard, 1):
        for place in places:
            yield (f"{number:02}", *place)


# Numbers: a range that is set aside for drama and belongs to nobody.


def numbers():
    for number in range(1000):
        yield ("north" if number < 500 else "south", f"+44 20 7946 {number:04}")


def accounts():
    for number in range(1, 13):
        module = "orders" if number < 9 else "quotes"
        yield ("trading", module, f"acc{number:02}", "1000", "1500:0.10 5000:0.25")


# Writing: one seat or row a line, so that the files can be read and compared.


def lines(value, depth):
    """JSON with the outermost `depth` levels spread over lines and the rest compact."""
    if depth == 0 or not isinstance(value, (dict, list)) or not value:
        return json.dumps(value, separators=(",", ":"))
    if isinstance(value, dict):
        if not any(isinstance(v, (dict, list)) for v in value.values()):
            return json.dumps(value, separators=(",", ":"))
        return "{" + ",\n".join(f"{json.dumps(k)}:{lines(v, depth - 1)}" for k, v in value.items()) + "}"
    return "[\n" + ",\n".join(lines(v, depth - 1) for v in value) + "]"


def main():
    (HERE / "theatre.pretix.json").write_text(lines(theatre(), 6) + "\n")
    (HERE / "stadium.plan.json").write_text(lines(stadium(), 4) + "\n")
    for name, plan in (("ball-park", ball_park), ("concert-hall", concert_hall), ("gala", gala)):
        (HERE / f"{name}.plan.json").write_text(lines(plan(), 4) + "\n")
    rows = ["area,row,seat,tier,break_after", *(",".join(place) for place in train())]
    (HERE / "train-16-coaches.csv").write_text("\n".join(rows) + "\n")
    rows = ["site,number", *(",".join(row) for row in numbers())]
    (HERE / "numbers.csv").write_text("\n".join(rows) + "\n")
    rows = ["department,module,account,quota,tiers", *(",".join(row) for row in accounts())]
    (HERE / "accounts.csv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
