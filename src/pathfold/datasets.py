"""Small public data sets, typed into the package: every function returns a pandas DataFrame, without a network.

The numbers are measurements, of which the sources print a table or a picture; where nothing else is said, the source
states no licence for them. Whoever uses a data set should cite its source.
"""

import pandas as pd

__all__ = [
    "drivers",
    "glucose_tolerance",
    "hare_lynx",
    "influenza",
    "lynx",
    "nile",
    "pound",
    "redstart",
    "theophylline",
]

# A line for each person: weight, dose, then hours and concentrations.
_THEOPHYLLINE = """
79.6 4.02 0:0.74 0.25:2.84 0.57:6.57 1.12:10.5 2.02:9.66 3.82:8.58 5.1:8.36 7.03:7.47 9.05:6.89 12.12:5.94 24.37:3.28
72.4 4.4 0:0 0.27:1.72 0.52:7.91 1:8.31 1.92:8.33 3.5:6.85 5.02:6.08 7.03:5.4 9:4.55 12:3.01 24.3:0.9
70.5 4.53 0:0 0.27:4.4 0.58:6.9 1.02:8.2 2.02:7.8 3.62:7.5 5.08:6.2 7.07:5.3 9:4.9 12.15:3.7 24.17:1.05
72.7 4.4 0:0 0.35:1.89 0.6:4.6 1.07:8.6 2.13:8.38 3.5:7.54 5.02:6.88 7.02:5.78 9.02:5.33 11.98:4.19 24.65:1.15
54.6 5.86 0:0 0.3:2.02 0.52:5.63 1:11.4 2.02:9.33 3.5:8.74 5.02:7.56 7.02:7.09 9.1:5.9 12:4.37 24.35:1.57
80 4 0:0 0.27:1.29 0.58:3.08 1.15:6.44 2.03:6.32 3.57:5.53 5:4.94 7:4.02 9.22:3.46 12.1:2.78 23.85:0.92
64.6 4.95 0:0.15 0.25:0.85 0.5:2.35 1.02:5.02 2.02:6.58 3.48:7.09 5:6.66 6.98:5.25 9:4.39 12.05:3.53 24.22:1.15
70.5 4.53 0:0 0.25:3.05 0.52:3.05 0.98:7.31 2.02:7.56 3.53:6.59 5.05:5.88 7.15:4.73 9.07:4.57 12.1:3 24.12:1.25
86.4 3.1 0:0 0.3:7.37 0.63:9.03 1.05:7.14 2.02:6.33 3.53:5.66 5.02:5.67 7.17:4.24 8.8:4.11 11.6:3.16 24.43:1.12
58.2 5.5 0:0.24 0.37:2.89 0.77:5.22 1.02:6.41 2.05:7.83 3.55:10.21 5.05:9.18 7.08:8.02 9.38:7.14 12.1:5.68 23.7:2.42
65 4.92 0:0 0.25:4.86 0.5:7.24 0.98:8 1.98:6.81 3.6:5.87 5.02:5.22 7.03:4.45 9.03:3.62 12.12:2.69 24.08:0.86
60.5 5.3 0:0 0.25:1.25 0.5:3.96 1:7.82 2:9.72 3.52:9.75 5.07:8.57 7.07:6.59 9.03:6.11 12.05:4.57 24.15:1.17
"""


def theophylline() -> pd.DataFrame:
    """Return concentrations of theophylline, a drug against asthma, in the blood of twelve people after one dose.

    They swallowed it, and each gave eleven samples in 25 hours, the first before the dose; three had some of the drug
    in their blood then already. It is a data set on which methods for drugs in people are compared: `Theoph` in R.

    Source: a study by Robert Upton, in Boeckmann, Sheiner and Beal (1994), "NONMEM users guide, part V", University of
    California, San Francisco; analysed by Davidian and Giltinan (1995), "Nonlinear models for repeated measurement
    data", and Pinheiro and Bates (2000), "Mixed-effects models in S and S-PLUS". No licence is stated.

    Returns
    -------
    pandas.DataFrame
        132 rows with the columns `subject` (1 to 12), `weight` (kg), `dose` (mg for each kg of weight), `hours` (since
        the dose) and `concentration` (mg/l).

    Examples
    --------
    >>> table = pf.datasets.theophylline()
    >>> people = table[table["hours"] > 0].set_index("hours").groupby("subject")
    >>> panel = [pf.Observations(person["concentration"]) for _, person in people]
    >>> len(panel)
    12
    """
    rows = []
    for subject, line in enumerate(_THEOPHYLLINE.strip().splitlines(), start=1):
        weight, dose, *samples = line.split()
        for sample in samples:
            hours, concentration = sample.split(":")
            rows.append((subject, float(weight), float(dose), float(hours), float(concentration)))
    return pd.DataFrame(rows, columns=["subject", "weight", "dose", "hours", "concentration"])


def influenza() -> pd.DataFrame:
    """Return how many boys of a boarding school in England lay in bed with influenza, day by day, in early 1978.

    Of 763 boys 512 fell ill.

    Source: "Influenza in a boarding school", British Medical Journal 1 (1978), page 587. It shows a picture and no
    table, from which different authors read different numbers. These are the ones with which Graham, Thiery and Beskos
    (2022), "Manifold Markov chain Monte Carlo methods for Bayesian inference in diffusion models", repeat the analysis
    of Ryder, Golightly, McGough and Prangle (2018), "Black-box variational inference for stochastic differential
    equations". No licence is stated.

    Returns
    -------
    pandas.DataFrame
        14 rows with the columns `day` (1 to 14) and `in_bed` (boys).

    Examples
    --------
    >>> pf.datasets.influenza()["in_bed"].max()
    np.int64(281)
    """
    in_bed = [3, 8, 28, 75, 221, 281, 255, 235, 190, 125, 70, 28, 12, 5]
    return pd.DataFrame({"day": range(1, 15), "in_bed": in_bed})


def hare_lynx() -> pd.DataFrame:
    """Return how many pelts of snowshoe hares and of lynxes trappers in Canada sold, year by year from 1900 to 1920.

    Lynxes live on hares, and both rise and fall with a period of about ten years.

    Source: the Hudson's Bay Company, in Hewitt (1921), "The conservation of the wild life of Canada", as tabulated by
    Howard (2009), "Modeling basics". No licence is stated.

    Returns
    -------
    pandas.DataFrame
        21 rows with the columns `year`, `hares` and `lynxes` (thousands of pelts).

    Examples
    --------
    >>> data = pf.Observations(pf.datasets.hare_lynx().set_index("year"), initial_time=1900)
    >>> data.components
    ('hares', 'lynxes')
    """
    hares = [
        *(30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1),
        *(40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7),
    ]
    lynxes = [
        *(4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4),
        *(8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6),
    ]
    return pd.DataFrame({"year": range(1900, 1921), "hares": hares, "lynxes": lynxes})


def lynx() -> pd.DataFrame:
    """Return how many lynxes were trapped in the Mackenzie River district of Canada, year by year from 1821 to 1934.

    The numbers rise and fall with a period of about ten years, steeply on either side and by a factor of a hundred.
    Models of time series have been tried on them since the 1950s, often with the last fourteen years held back.

    Source: the Hudson's Bay Company, in table 4 of Elton and Nicholson (1942), "The ten-year cycle in numbers of the
    lynx in Canada", Journal of Animal Ecology 11; `lynx` in R, whose value for 1867, 4254, is used here. No licence is
    stated.

    Returns
    -------
    pandas.DataFrame
        114 rows with the columns `year` and `lynxes`.

    Examples
    --------
    >>> pf.datasets.lynx()["lynxes"].max()
    np.int64(6991)
    """
    lynxes = [
        *(269, 321, 585, 871, 1475, 2821, 3928, 5943, 4950, 2577, 523, 98, 184, 279, 409, 2285, 2685, 3409, 1824, 409),
        *(151, 45, 68, 213, 546, 1033, 2129, 2536, 957, 361, 377, 225, 360, 731, 1638, 2725, 2871, 2119, 684, 299),
        *(236, 245, 552, 1623, 3311, 6721, 4254, 687, 255, 473, 358, 784, 1594, 1676, 2251, 1426, 756, 299, 201, 229),
        *(469, 736, 2042, 2811, 4431, 2511, 389, 73, 39, 49, 59, 188, 377, 1292, 4031, 3495, 587, 105, 153, 387),
        *(758, 1307, 3465, 6991, 6313, 3794, 1836, 345, 382, 808, 1388, 2713, 3800, 3091, 2985, 3790, 674, 81, 80, 108),
        *(229, 399, 1132, 2432, 3574, 2935, 1537, 529, 485, 662, 1000, 1590, 2657, 3396),
    ]
    return pd.DataFrame({"year": range(1821, 1935), "lynxes": lynxes})


def redstart() -> pd.DataFrame:
    """Return how many American redstarts were counted along one route, once a year from 1966 to 1995.

    Source: the North American Breeding Bird Survey (record 02014 3328 08636), as printed in table 1 of Dennis,
    Ponciano, Lele, Taper and Staples (2006), "Estimating density dependence, process noise, and observation error",
    Ecological Monographs 76. No licence is stated.

    Returns
    -------
    pandas.DataFrame
        30 rows with the columns `year` and `count` (birds).

    Examples
    --------
    >>> pf.datasets.redstart()["count"].sum()
    np.int64(229)
    """
    count = [18, 10, 9, 14, 17, 14, 5, 10, 9, 5, 11, 11, 4, 5, 4, 8, 2, 3, 9, 2, 4, 7, 4, 1, 2, 4, 11, 11, 9, 6]
    return pd.DataFrame({"year": range(1966, 1996), "count": count})


def drivers() -> pd.DataFrame:
    """Return how many drivers of cars were killed or seriously injured in Great Britain, by month, from 1969 to 1984.

    Wearing a seat belt in the front became compulsory on 31 January 1983.

    Source: Harvey and Durbin (1986), "The effects of seat belt legislation on British road casualties: a case study in
    structural time series modelling", Journal of the Royal Statistical Society A 149, of official statistics; printed
    in Harvey (1989), "Forecasting, structural time series models and the Kalman filter"; `UKDriverDeaths` in R. No
    licence is stated.

    Returns
    -------
    pandas.DataFrame
        192 rows with the columns `date` (the first day of the month) and `drivers`.

    Examples
    --------
    >>> table = pf.datasets.drivers()
    >>> int(table["drivers"].max()), table["date"][table["drivers"].idxmax()].strftime("%Y-%m")
    (2654, '1972-12')
    """
    drivers = [
        *(1687, 1508, 1507, 1385, 1632, 1511, 1559, 1630, 1579, 1653, 2152, 2148),
        *(1752, 1765, 1717, 1558, 1575, 1520, 1805, 1800, 1719, 2008, 2242, 2478),
        *(2030, 1655, 1693, 1623, 1805, 1746, 1795, 1926, 1619, 1992, 2233, 2192),
        *(2080, 1768, 1835, 1569, 1976, 1853, 1965, 1689, 1778, 1976, 2397, 2654),
        *(2097, 1963, 1677, 1941, 2003, 1813, 2012, 1912, 2084, 2080, 2118, 2150),
        *(1608, 1503, 1548, 1382, 1731, 1798, 1779, 1887, 2004, 2077, 2092, 2051),
        *(1577, 1356, 1652, 1382, 1519, 1421, 1442, 1543, 1656, 1561, 1905, 2199),
        *(1473, 1655, 1407, 1395, 1530, 1309, 1526, 1327, 1627, 1748, 1958, 2274),
        *(1648, 1401, 1411, 1403, 1394, 1520, 1528, 1643, 1515, 1685, 2000, 2215),
        *(1956, 1462, 1563, 1459, 1446, 1622, 1657, 1638, 1643, 1683, 2050, 2262),
        *(1813, 1445, 1762, 1461, 1556, 1431, 1427, 1554, 1645, 1653, 2016, 2207),
        *(1665, 1361, 1506, 1360, 1453, 1522, 1460, 1552, 1548, 1827, 1737, 1941),
        *(1474, 1458, 1542, 1404, 1522, 1385, 1641, 1510, 1681, 1938, 1868, 1726),
        *(1456, 1445, 1456, 1365, 1487, 1558, 1488, 1684, 1594, 1850, 1998, 2079),
        *(1494, 1057, 1218, 1168, 1236, 1076, 1174, 1139, 1427, 1487, 1483, 1513),
        *(1357, 1165, 1282, 1110, 1297, 1185, 1222, 1284, 1444, 1575, 1737, 1763),
    ]
    return pd.DataFrame({"date": pd.date_range("1969-01-01", periods=192, freq="MS"), "drivers": drivers})


def nile() -> pd.DataFrame:
    """Return the yearly flow of the Nile at Aswan from 1871 to 1970, which fell about 1898.

    Source: Cobb (1978), "The problem of the Nile: conditional solution to a changepoint problem", Biometrika 65;
    analysed throughout Durbin and Koopman (2001), "Time series analysis by state space methods"; `Nile` in R. No
    licence is stated.

    Returns
    -------
    pandas.DataFrame
        100 rows with the columns `year` and `flow` (10^8 cubic metres).

    Examples
    --------
    >>> pf.datasets.nile()["flow"].mean()
    np.float64(919.35)
    """
    flow = [
        *(1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140),
        *(995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140),
        *(1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840),
        *(874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969),
        *(831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821),
        *(768, 845, 864, 862, 698, 845, 744, 796, 1040, 759),
        *(781, 865, 845, 944, 984, 897, 822, 1010, 771, 676),
        *(649, 846, 812, 742, 801, 1040, 860, 874, 848, 890),
        *(744, 749, 838, 1050, 918, 986, 797, 923, 975, 815),
        *(1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740),
    ]
    return pd.DataFrame({"year": range(1871, 1971), "flow": flow})


def pound() -> pd.DataFrame:
    """Return how many dollars a pound sterling cost in New York at noon, on every trading day of 2008.

    It cost two dollars until July, and lost a quarter of that in the crisis of the banks that followed. In its course
    the volatility rose from ten per cent a year to thirty.

    Source: the Board of Governors of the Federal Reserve System, release H.10; series DEXUSUK of FRED, Federal Reserve
    Bank of St. Louis. In the public domain.

    Returns
    -------
    pandas.DataFrame
        252 rows with the columns `date` and `dollars` (for one pound).

    Examples
    --------
    >>> rates = pf.datasets.pound().set_index("date")["dollars"]
    >>> rates.loc["2008-09-30"]
    np.float64(1.7804)
    """
    closed = [
        *("2008-01-01", "2008-01-21", "2008-02-18", "2008-05-26", "2008-07-04"),
        *("2008-09-01", "2008-10-13", "2008-11-11", "2008-11-27", "2008-12-25"),
    ]
    dollars = [
        *(1.9824, 1.9733, 1.9757, 1.9703, 1.9731, 1.9564, 1.9565, 1.9592, 1.9583, 1.9671, 1.9638, 1.9744),
        *(1.9529, 1.9577, 1.9515, 1.9733, 1.9802, 1.9857, 1.9857, 1.9880, 1.9895, 1.9687, 1.9777, 1.9626),
        *(1.9604, 1.9420, 1.9473, 1.9486, 1.9622, 1.9618, 1.9708, 1.9613, 1.9511, 1.9405, 1.9614, 1.9668),
        *(1.9668, 1.9747, 1.9923, 1.9879, 1.9864, 1.9850, 1.9854, 1.9939, 2.0073, 2.0128, 2.0166, 2.0041),
        *(2.0211, 2.0311, 2.0294, 2.0008, 2.0216, 1.9858, 1.9823, 1.9826, 1.9852, 1.9997, 2.0019, 2.0097),
        *(1.9890, 1.9855, 1.9774, 1.9827, 1.9961, 1.9947, 1.9855, 1.9690, 1.9726, 1.9742, 1.9707, 1.9816),
        *(1.9627, 1.9756, 1.9908, 1.9965, 1.9813, 1.9994, 1.9786, 1.9716, 1.9833, 1.9908, 1.9747, 1.9847),
        *(1.9749, 1.9756, 1.9679, 1.9747, 1.9522, 1.9543, 1.9486, 1.9616, 1.9470, 1.9451, 1.9488, 1.9580),
        *(1.9472, 1.9705, 1.9669, 1.9785, 1.9818, 1.9751, 1.9806, 1.9759, 1.9793, 1.9666, 1.9650, 1.9548),
        *(1.9563, 1.9695, 1.9758, 1.9543, 1.9646, 1.9467, 1.9496, 1.9637, 1.9544, 1.9570, 1.9729, 1.9737),
        *(1.9609, 1.9707, 1.9672, 1.9873, 1.9938, 1.9906, 1.9930, 1.9925, 1.9825, 1.9697, 1.9685, 1.9812),
        *(1.9777, 1.9895, 1.9925, 2.0036, 1.9995, 2.0038, 1.9985, 1.9979, 1.9941, 2.0021, 1.9832, 1.9880),
        *(1.9943, 1.9805, 1.9810, 1.9806, 1.9743, 1.9606, 1.9532, 1.9479, 1.9439, 1.9193, 1.9144, 1.9005),
        *(1.8682, 1.8715, 1.8651, 1.8673, 1.8655, 1.8603, 1.8758, 1.8544, 1.8587, 1.8387, 1.8318, 1.8264),
        *(1.8190, 1.7853, 1.7795, 1.7689, 1.7687, 1.7543, 1.7672, 1.7547, 1.7497, 1.7896, 1.7877, 1.7802),
        *(1.7895, 1.8186, 1.8297, 1.8484, 1.8558, 1.8502, 1.8406, 1.8400, 1.8044, 1.7804, 1.7804, 1.7655),
        *(1.7740, 1.7380, 1.7592, 1.7310, 1.7225, 1.7037, 1.7482, 1.7432, 1.7243, 1.7307, 1.7134, 1.6837),
        *(1.6174, 1.6181, 1.5631, 1.5472, 1.5591, 1.6298, 1.6270, 1.6165, 1.5855, 1.6095, 1.6156, 1.5814),
        *(1.5788, 1.5639, 1.5012, 1.4799, 1.4860, 1.5030, 1.5042, 1.5095, 1.4789, 1.4816, 1.5177, 1.5349),
        *(1.5218, 1.5348, 1.4840, 1.4949, 1.4783, 1.4791, 1.4606, 1.4831, 1.4776, 1.4830, 1.4953, 1.4874),
        *(1.5278, 1.5320, 1.5457, 1.5103, 1.4854, 1.4805, 1.4761, 1.4673, 1.4700, 1.4591, 1.4395, 1.4619),
    ]
    dates = pd.bdate_range("2008-01-01", "2008-12-31").difference(pd.to_datetime(closed))
    return pd.DataFrame({"date": dates, "dollars": dollars})


def glucose_tolerance() -> pd.DataFrame:
    """Return glucose and insulin in the blood of one person after an injection of glucose.

    The first sample was taken before the injection. From such a test the sensitivity to insulin is estimated.

    Source: Pacini and Bergman (1986), "MINMOD: a computer program to calculate insulin sensitivity and pancreatic
    responsivity from the frequently sampled intravenous glucose tolerance test", Computer Methods and Programs in
    Biomedicine 23. No licence is stated.

    Returns
    -------
    pandas.DataFrame
        24 rows with the columns `minutes` (since the injection), `glucose` (mg/dl) and `insulin` (uU/ml).

    Examples
    --------
    >>> table = pf.datasets.glucose_tolerance()
    >>> insulin = pf.Input(table["minutes"].to_numpy(), table["insulin"].to_numpy())
    """
    minutes = [0, 2, 4, 6, 8, 10, 12, 14, 16, 19, 22, 27, 32, 42, 52, 62, 72, 82, 92, 102, 122, 142, 162, 182]
    glucose = [
        *(92, 350, 287, 251, 240, 216, 211, 205, 196, 192, 172, 163),
        *(142, 124, 105, 92, 84, 77, 82, 81, 82, 82, 85, 90),
    ]
    insulin = [11, 26, 130, 85, 51, 49, 45, 41, 35, 30, 30, 27, 30, 22, 15, 15, 11, 10, 8, 11, 7, 8, 8, 7]
    return pd.DataFrame({"minutes": minutes, "glucose": glucose, "insulin": insulin})
